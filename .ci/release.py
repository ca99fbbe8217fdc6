"""Build a release and check it, for ``make release-check``.

Builds sdist and wheel twice, in two folders and under two umasks, and compares them byte for byte; checks their
files; installs the wheel without extras into a bare environment, lists its packages (a CycloneDX SBOM), and runs the
README there. The results are in ``dist``.
"""

from __future__ import annotations

import hashlib
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
SITE = runpy.run_path(str(ROOT / "skdp" / "pages.py"))["SITE"]
FOLDERS = runpy.run_path(str(ROOT / ".ci" / "wheel_pages.py"))["FOLDERS"]
PAGES = tuple(f"docs/{folder}/" for folder in FOLDERS)  # that the wheel contains
# Fields that a person fills in before the first upload, while they are empty: docs/project/release.md.
EMPTY_FIELDS = [
    ("pyproject.toml", "# [project.urls]"),
    ("pyproject.toml", r"replacement = '\1' },"),
    ("skdp/pages.py", "SITE: str | None = None"),
    ("README.md", "git clone ADDRESS"),
    ("SECURITY.md", "**Contact:** the person who gave you the code"),
    ("CITATION.cff", "# contact:"),
    ("CITATION.cff", "# repository-code:"),
]
# Code, and the extra that the error names if the extra is not installed.
NEED_EXTRAS = [
    ("fairness", "from skdp.metrics import private_parity; private_parity(encoder)"),
    (
        "plot",
        "from skdp.evaluation import CountEstimateDisplay as D; "
        "D.from_estimates(encoder.estimate_counts(encoder.transform(people)))",
    ),
    ("plot", "from skdp.cli import main; main(['report', '--out', 'report'])"),
    ("plot", "skdp.privacy_statement(encoder).to_html()"),
    (
        "duckdb",
        "from skdp.engines import privatize_file; privatize_file('people.csv', 'reports.csv', encoder)",
    ),
    (
        "duckdb",
        "from skdp.cli import main; main('synthesize people.csv new.csv --domain d.toml --epsilon 1'.split())",
    ),
]
PREPARED = """
import pandas as pd, pathlib, skdp
pathlib.Path("people.csv").write_text("sex\\nf\\nm\\n")
pathlib.Path("d.toml").write_text('[columns.sex]\\nvalues = ["f", "m"]\\n')
people = pd.DataFrame({"sex": ["f", "m"] * 50})
encoder = skdp.RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]}).fit(people)
"""


def build(folder: Path, umask: int) -> list[Path]:
    """Build the committed files in a folder of their own."""
    folder.mkdir()
    archive = subprocess.run(
        ["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    subprocess.run(["tar", "-x"], cwd=folder, input=archive, check=True, umask=umask)
    when = subprocess.run(
        ["git", "log", "-1", "--format=%ct"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", "dist"],
        cwd=folder,
        env=os.environ | {"SOURCE_DATE_EPOCH": when},
        check=True,
        stdout=subprocess.DEVNULL,
        umask=umask,
    )
    return sorted((folder / "dist").iterdir())


def check_contents(sdist: Path, wheel: Path) -> None:
    """Check that the package is complete, has no other files, and has no links to files of the repository."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(
            next(name for name in names if name.endswith("/METADATA"))
        ).decode()
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    package = {name for name in tracked if name.startswith("skdp/")}
    pages = [name for name in tracked if name.startswith(PAGES)]
    package |= {f"skdp/{name.removesuffix('.md')}.html" for name in pages}
    assert {name for name in names if ".dist-info/" not in name} == package, (
        "the wheel is not the package"
    )
    for notice in ("LICENSE", "skdp/datasets/data/adult.rst"):
        assert any(name.endswith(f"/licenses/{notice}") for name in names), (
            f"no {notice} among the licences"
        )
    assert not re.findall(r"\]\((?!https?://)", metadata), (
        "a link of the README is relative"
    )
    with tarfile.open(sdist) as archive:
        inside = {
            member.name.partition("/")[2]
            for member in archive.getmembers()
            if member.isfile()
        }
    # With documents and notebooks, which its tests read.
    left_out = (".github/", "docs/notebooks")
    needed = {name for name in tracked if not name.startswith(left_out)}
    assert needed <= inside, f"the sdist lacks {sorted(needed - inside)}"
    assert inside <= {*tracked, "PKG-INFO"}, (
        "the sdist holds files that are not in the repository"
    )
    # The address of the project equals the address in messages, or neither is set.
    addresses = re.findall(
        r"^Project-URL: Documentation, (.*)$", metadata, re.MULTILINE
    )
    assert addresses == ([] if SITE is None else [SITE]), (
        "set skdp.pages.SITE and [project.urls] in pyproject.toml to one address"
    )
    for name, text in EMPTY_FIELDS:
        if text in (ROOT / name).read_text(encoding="utf-8"):
            print(f"note: empty field in {name}, see docs/project/release.md: {text}")


def check_installed(wheel: Path, environment: Path) -> None:
    """Run code without extras, then code that requires an extra, in an environment with the wheel."""
    python, pip = environment / "bin" / "python", environment / "bin" / "pip"
    subprocess.run([pip, "check"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([environment / "bin" / "skdp", "--version"], check=True)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for extra, code in NEED_EXTRAS:
        done = run_code(python, PREPARED + code)
        assert done.returncode != 0, f"runs without the extra {extra}: {code}"
        assert f"extra '{extra}'" in done.stderr, (
            f"does not name the extra {extra}: {code}\n{done.stderr}"
        )
    # The README draws a picture, and names the extra for it.
    subprocess.run([pip, "install", "--quiet", f"{wheel}[plot]"], check=True)
    for code in re.findall(r"```python\n(.*?)```", readme, re.DOTALL):
        done = run_code(python, code)
        assert done.returncode == 0, f"the README's code fails:\n{code}\n{done.stderr}"


def run_code(python: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in an empty folder, with warnings as errors."""
    with tempfile.TemporaryDirectory() as work:
        return subprocess.run(
            [python, "-W", "error", "-c", code],
            cwd=work,
            capture_output=True,
            text=True,
            check=False,
        )


def write_sbom(python: Path, version: str) -> Path:
    """List the packages of the bare environment, as CycloneDX."""
    path = DIST / f"skdp-{version}.cdx.json"
    options = [
        "--output-reproducible",
        "--pyproject",
        ROOT / "pyproject.toml",
        "--of",
        "JSON",
        "--validate",
        "-o",
        path,
    ]
    subprocess.run(
        [
            Path(sys.executable).with_name("cyclonedx-py"),
            "environment",
            *options,
            python,
        ],
        check=True,
    )
    return path


def main() -> int:
    """Build, check and keep a release; print the packages with their digests."""
    changed = subprocess.run(
        ["git", "status", "--porcelain"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    if changed:
        print(
            f"commit first: a release is made of committed files\n{changed}",
            file=sys.stderr,
        )
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first, second = build(folder / "one", 0o022), build(folder / "two", 0o077)
        for one, two in zip(first, second, strict=True):
            assert one.name == two.name, "the builds have other names"
            assert one.read_bytes() == two.read_bytes(), (
                f"two builds of {one.name} differ"
            )
        wheel, sdist = sorted(first, key=lambda path: path.suffix != ".whl")
        check_contents(sdist, wheel)
        subprocess.run(
            [sys.executable, "-m", "twine", "check", "--strict", *first], check=True
        )
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        kept = [Path(shutil.copy(path, DIST)) for path in first]
        environment = folder / "bare"
        venv.create(environment, with_pip=True)
        subprocess.run(
            [environment / "bin" / "pip", "install", "--quiet", wheel], check=True
        )
        kept.append(
            write_sbom(environment / "bin" / "python", wheel.name.split("-")[1])
        )
        check_installed(wheel, environment)
    for path in kept:
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  dist/{path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
