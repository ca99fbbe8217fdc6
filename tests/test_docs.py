"""The documentation site, without building it: lists of objects, guarantee pages, links, code of pages."""

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import skdp
from skdp import pages
from tests.conftest import each, often

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
INTERNAL = {"skdp.base", "skdp.tables"}
API = "".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "api").glob("*.rst")))
DATA = re.findall(r"^\.\. py:data:: (skdp\.\S+)$", API, re.MULTILINE)
LISTED = re.findall(r"^   (skdp\.\S+)$", API, re.MULTILINE) + DATA
PAGES = [DOCS / "index.md", *sorted((DOCS / "guide").glob("*.md"))]
ANSWERS = sorted([*(DOCS / "answers").glob("*.md"), *(DOCS / "background").glob("*.md")])
SLOW_PAGES = ("attacks", "numbers", "evaluation", "synthetic_tables", "engines")
EXAMPLES = sorted((ROOT / "examples").glob("*/plot_*.py"))


def public_names():
    """Return the shortest full name of each object of a public `__all__`."""
    names = {f"skdp.{name}" for name in skdp.__all__}
    for room in pkgutil.iter_modules(skdp.__path__, "skdp."):
        if room.ispkg and room.name not in INTERNAL:
            module = importlib.import_module(room.name)
            own = set(getattr(module, "__all__", ())) - set(skdp.__all__)
            names |= {f"{room.name}.{name}" for name in own}
    return names


def test_the_api_lists_every_public_object_once():
    assert sorted(LISTED) == sorted(public_names())


GUARANTEES = sorted((DOCS / "guarantees").glob("*.md"))


def test_guarantees_name_public_objects_and_tests_that_exist():
    text = "".join(path.read_text(encoding="utf-8") for path in GUARANTEES)
    named = re.findall(r"\{py:obj\}`(skdp\.[\w.]+)`", text)
    assert [name for name in named if name not in LISTED] == []
    proofs = re.findall(r"^- \*\*Tests:\*\* (.*)\.$", text, re.MULTILINE)
    assert len(proofs) == text.count("\n**Proof.** ") > 25
    assert [name for name in re.findall(r"`([^`]+)`", " ".join(proofs)) if not (ROOT / name).exists()] == []


@each("name", LISTED)
def test_estimators_link_to_their_page(name, monkeypatch):
    package, _, own = name.rpartition(".")
    thing = getattr(importlib.import_module(package), own)
    if inspect.isclass(thing) and issubclass(thing, BaseEstimator) and not inspect.isabstract(thing):
        # Without a host, no link is shown that leads nowhere.
        assert thing._get_doc_link(thing.__new__(thing)) == ""
        with monkeypatch.context() as patch:
            patch.setattr(pages, "SITE", "https://host.example")
            link = thing._get_doc_link(thing.__new__(thing))
        assert link == f"https://host.example/api/generated/{name}.html"


def slug_of(heading):
    """Return the anchor of a heading, as on the site."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def calls_in(path):
    """Yield the calls in a module that warns, with their names as `warn` or `warnings.warn`."""
    text = path.read_text(encoding="utf-8")
    if "warn" not in text:  # to parse all modules takes a second
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name):
                yield called.id, node
            elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
                yield f"{called.value.id}.{called.attr}", node


MODULES = sorted((ROOT / "skdp").rglob("*.py"))
# All other modules warn through `skdp.pages`.
PLAIN_WARNINGS = {"pages.py": 1}


def test_every_warning_names_a_page_that_exists():
    named, plain = set(), Counter()
    for path in MODULES:
        for name, call in calls_in(path):
            options = {option.arg: option.value for option in call.keywords}
            plain[path.name] += name == "warnings.warn"
            if name in ("warn", "warn_at_caller") and call.args and isinstance(options["about"], ast.Constant):
                named.add(options["about"].value)
                # `warn` adds a period.
                end = getattr(call.args[0], "values", call.args)[-1]
                assert not str(getattr(end, "value", "")).endswith("."), ast.unparse(end)
    assert +plain == PLAIN_WARNINGS
    assert len(named) > 10
    for page in named:
        name, _, section = page.partition("#")
        assert page.startswith(("answers/", "guide/"))  # which the wheel contains
        path = DOCS / f"{name}.md"
        assert pages.address(page) == path.as_uri() + f"#{section}" * bool(section)
        text = path.read_text(encoding="utf-8")
        assert not section or section in map(slug_of, re.findall(r"^#+ (.*)$", text, re.MULTILINE)), page


def test_addresses_are_in_one_place(monkeypatch):
    monkeypatch.setattr(pages, "SITE", "https://host.example")
    assert pages.address("guide/tables#in-code") == "https://host.example/guide/tables.html#in-code"
    for path in (*MODULES, ROOT / "pyproject.toml"):
        assert "skdp.example" not in path.read_text(encoding="utf-8"), path
    with pytest.warns(UserWarning, match="too few rows. See https://host.example/answers/which_epsilon.html") as caught:
        pages.warn("too few rows", UserWarning, about="answers/which_epsilon", stacklevel=1)
    assert caught[0].filename == __file__


def blocks(path):
    """Return the code of a page, block by block."""
    return re.findall(r"^```python\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


WITH_SPARK = [path for path in PAGES + ANSWERS if any("pyspark" in code for code in blocks(path))]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # Spark's own
@pytest.mark.parametrize("path", WITH_SPARK, ids=lambda path: path.stem)
def test_code_of_pages_runs_on_spark(path, tmp_path, monkeypatch, capsys):
    pytest.importorskip("pyspark")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    namespace = {}
    for code in blocks(path):
        exec(compile(code, str(path), "exec"), namespace)
    assert "std_error" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:Setting a(n item| value)")  # fairlearn's own, of pandas 3.1
@pytest.mark.parametrize(
    "path",
    often([*PAGES, *ANSWERS], [path for path in PAGES + ANSWERS if path.stem not in SLOW_PAGES]),
    ids=lambda path: path.stem,
)
def test_code_of_pages_runs(path, tmp_path, monkeypatch):
    """The code of a page is run from top to bottom, in one namespace."""
    monkeypatch.chdir(tmp_path)  # some of it writes files
    pyplot = pytest.importorskip("matplotlib.pyplot")
    namespace = {}
    for code in blocks(path):
        if "pyspark" in code:
            continue
        exec(compile(code, str(path), "exec"), namespace)
    if path.stem == "local_model":  # the attack on the hand-written code finds every value
        assert (namespace["truth"] == namespace["codes"]).all()
    pyplot.close("all")


@each("name", sorted({*LISTED} - {*DATA}))
def test_every_object_has_an_example(name):
    package, _, own = name.rpartition(".")
    thing = inspect.unwrap(getattr(importlib.import_module(package), own))
    head, _, examples = (inspect.getdoc(thing) or "").partition("\nExamples\n--------\n")
    assert ">>> " not in head
    assert re.search(">>> (.*)", examples)[1].startswith(("from ", "import ")), "its first line imports nothing"
    assert re.search(r"^>>> .*\n(\.\.\. .*\n)*(?!>>> |\.\.\. |\n)", examples, re.MULTILINE), "has no output"
