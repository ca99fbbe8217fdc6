"""Files and links of the documents exist, version and date are unique, and the code of the README runs."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

import skdp
from skdp import PrivacyGuarantee
from skdp.privacy import GaussianLoss, Mu

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FOLDERS = "skdp|tests|docs|benchmarks|notebooks|\\.ci|\\.github"


def absent_links(path, text):
    text = re.sub(r"^```markdown.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)  # of a page that a how-to adds
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    return [link for link in links if "://" not in link and not (path.parent / link).exists()]


def absent_files(text):
    found = re.findall(rf"(New file )?`((?:{FOLDERS})/[\w./-]*)`", text)  # new files of a how-to
    return [name for new, name in found if not new and not (ROOT / name).exists()]


def test_links_and_files_exist():
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        assert not absent_links(path, text), path
        assert not absent_files(text), path


def test_each_fault_names_an_existing_test():
    lines = re.findall(r"^- .*", (ROOT / "tests" / "FAULTS.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = re.findall(r"`(test_\w+)`", "\n".join(lines))
    defined = {
        name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    assert [line for line in lines if "(`test_" not in line] == []
    assert len(lines) == len(set(lines)) > 200
    assert [name for name in named if name not in defined] == []


def test_fields_of_the_release_checklist_exist():
    page = (ROOT / "docs" / "project" / "release.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|`]+ \| `(\S+)` \| `((?:\\\||[^`])+)`", page, re.MULTILINE)
    assert len(rows) == 7
    absent = [row for row in rows if row[1].replace("\\|", "|") not in (ROOT / row[0]).read_text(encoding="utf-8")]
    assert absent == []


def test_architecture_lists_every_package():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rooms = [path for path in (ROOT / "skdp").iterdir() if path.name[0] != "_" and path.suffix in ("", ".py")]
    assert [path.name for path in rooms if f"| `skdp/{path.name}` |" not in text] == []


def test_files_state_the_same_version_and_date():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    version, date = (re.search(rf"^{key}: (\S+)$", citation, re.MULTILINE)[1] for key in ("version", "date-released"))
    assert version == skdp.__version__
    assert version == tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    cited = (ROOT / "docs" / "answers" / "cite.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\b\d+[.]\d+[.]\d+\b", cited)) == {version}
    assert f"\n## {version} - {date}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_citations_have_one_title_version_and_year():
    title = re.match(r"# (.+)\n", README)[1]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert title == f"{project['name']}: {project['description']}"
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r'^title: "(.+)"$', citation, re.MULTILINE) == [title]
    page = (ROOT / "docs" / "answers" / "cite.md").read_text(encoding="utf-8")
    (entry,) = re.findall(r"```bibtex\n@misc{skdp,\n(.*?)\n}\n```", page, re.DOTALL)
    fields = dict(re.findall(r"^  (\w+) *= {(.*)},?$", entry, re.MULTILINE))
    date = re.search(r"^date-released: (\d+)-", citation, re.MULTILINE)[1]
    assert fields == {
        "author": f"{{{project['authors'][0]['name']}}}",
        "title": title.replace(project["name"], f"{{{project['name']}}}"),  # not capitalized by BibTeX
        "note": f"Version {project['version']}",
        "year": date,
    }


README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_guesses_are_rounded_as_in_statements():
    page = (ROOT / "docs" / "answers" / "which_epsilon.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([0-9.]+) \| (.*?) \| (.*?) \| ([0-9.]+) \| (.*?) \| (.*?) \|$", page, re.MULTILINE)
    assert len(rows) == 7
    guesses = {}
    for epsilon, guess, detections, mu, of_noise, detected in rows:
        noise = Mu.of(float(epsilon), 1e-6)
        assert f"{noise.mu:.3f}".rstrip("0") == mu
        pure = PrivacyGuarantee(float(epsilon))
        gaussian = PrivacyGuarantee(float(epsilon), delta=1e-6, losses=(GaussianLoss(noise.mu),))
        for guarantee, numbers in ((pure, (guess, detections)), (gaussian, (of_noise, detected))):
            found = re.search(
                r"After the release, a guess is right (?:at most )?(.*?) times .* detects (?:at most )?(.*) of 100",
                guarantee.in_odds(),
            )
            assert found.groups() == numbers
        guesses[epsilon] = guess, of_noise
    known = [guesses[epsilon] for epsilon in ("0.5", "1", "3", "10")]
    stated = re.search(r"\)\$: ([\d.]+) % at ε = 0.5, ([\d.]+) % at 1, ([\d.]+) % at 3", README).groups()
    assert stated == tuple(pure for pure, _ in known[:3])
    noisy = re.search(r"correct in ([\d.]+), ([\d.]+),\s+([\d.]+) and ([\d.]+) %", README).groups()
    assert noisy == tuple(noise for _, noise in known)


@pytest.mark.parametrize("code", BLOCKS, ids=range(len(BLOCKS)))
def test_code_of_the_readme_runs(code, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some code writes files
    exec(compile(code, "README.md", "exec"), {})
    for output in re.findall(r"print\(.*\)\n# (epsilon = .*)", code):
        assert output in capsys.readouterr().out


def test_commands_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = set(re.findall(r"make ([a-z-]+)", README))
    assert {"report", "test", "docs"} <= commands
    assert all(f"\n{command}:" in makefile for command in commands)


def test_readme_picture_shows_the_output_of_the_code():
    picture = (ROOT / "docs" / "_static" / "counts.svg").read_text(encoding="utf-8")
    output = re.search(r"<dc:description>(.*?)</dc:description>", picture, re.DOTALL)[1]
    assert f"```text\n{output}```" in README, "run docs/make_figures.py"


FIGURE = re.compile(r"\{figure\} \S*/gallery/(\w+)/images/sphx_glr_(\w+)_\d+[.]png")
FIGURES = [
    pytest.param(path, found, id=path.stem)
    for path in DOCUMENTS
    if (found := FIGURE.search(path.read_text(encoding="utf-8")))
]


def test_pages_have_at_most_one_figure():
    assert FIGURES
    assert [path.name for path in DOCUMENTS if len(FIGURE.findall(path.read_text(encoding="utf-8"))) > 1] == []


@pytest.mark.long
@pytest.mark.parametrize(("path", "figure"), FIGURES)
def test_example_prints_the_numbers_beside_its_figure(path, figure, capsys, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    section = path.read_text(encoding="utf-8")[: figure.start()].rpartition("\n#")[2]
    numbers = re.findall(r"-?\b\d+[.]\d\d+\b", section.replace("−", "-"))
    try:
        runpy.run_path(str(ROOT / "examples" / figure[1] / f"{figure[2]}.py"))
    finally:
        pyplot.close("all")
    printed = capsys.readouterr().out
    assert [number for number in numbers if number not in printed] == []
