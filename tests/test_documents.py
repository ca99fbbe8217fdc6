"""What the documents name is there: files, links, pages, one version and date."""

import re
import tomllib
from pathlib import Path

import skdp
from tests.conftest import each

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FOLDERS = "skdp|tests|docs|benchmarks|notebooks|\\.ci|\\.github"


def absent_links(path, text):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    return [link for link in links if "://" not in link and not (path.parent / link).exists()]


def absent_files(text):
    found = re.findall(rf"(New file )?`((?:{FOLDERS})/[\w./-]*)`", text)  # a how-to tells which to write
    return [name for new, name in found if not new and not (ROOT / name).exists()]


@each("path", DOCUMENTS)
def test_links_and_files_exist(path):
    text = path.read_text(encoding="utf-8")
    assert not absent_links(path, text)
    assert not absent_files(text)


def test_the_architecture_names_every_room():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rooms = [path for path in (ROOT / "skdp").iterdir() if path.name[0] != "_" and path.suffix in ("", ".py")]
    assert [path.name for path in rooms if f"| `skdp/{path.name}` |" not in text] == []


def test_one_version_and_date():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    version, date = (re.search(rf"^{key}: (\S+)$", citation, re.MULTILINE)[1] for key in ("version", "date-released"))
    assert version == skdp.__version__
    assert version == tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\n## {version} - {date}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_no_file_holds_the_marks_of_a_merge():
    texts = [ROOT / "Makefile", *ROOT.glob("*.md"), *ROOT.glob("*.toml")]
    for folder in ("benchmarks", "docs", "examples", "notebooks", "skdp", "tests", ".ci"):
        texts += [path for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".md", ".toml", ".rst", ".j2"}]
    assert len(texts) > 500
    marked = re.compile("^(<{7}|>{7}) ", re.MULTILINE)
    assert [path.name for path in texts if marked.search(path.read_text(errors="replace"))] == []
