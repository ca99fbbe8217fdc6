"""The documentation site without building it: lists of objects, guarantee pages, links, code of pages."""

import gc
import importlib
import inspect
import re
import runpy
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import skdp
from skdp import pages
from tests.conftest import often
from tests.packages import ROOMS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
API = "".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "api").glob("*.rst")))
LISTED = re.findall(r"^   (skdp\.\S+)$", API, re.MULTILINE)
PAGES = sorted((DOCS / "guide").glob("*.md"))
ANSWERS = sorted([*(DOCS / "answers").glob("*.md")])
JOBS = sorted(path for path in (DOCS / "jobs").glob("*.md") if path.stem != "index")
MAX_JOB_WORDS = 1_200  # ten minutes; code and numbers are read slowly
SLOW_PAGES = (
    *("attacks", "numbers", "evaluation", "fairness", "synthetic_tables", "engines"),
    *("ledger_grid_search", "protected_columns"),
)

SLOW_JOBS = (
    *("credit_model", "fairness_study", "five_million_rows", "patients_and_visits", "private_columns"),
    "private_model",
)


def public_names():
    """Return the shortest full name of each object of a public `__all__`."""
    names = {f"skdp.{name}" for name in skdp.__all__}
    for room in ROOMS:
        own = set(getattr(room, "__all__", ())) - set(skdp.__all__)
        names |= {f"{room.__name__}.{name}" for name in own}
    return names


def test_api_lists_every_public_object_once():
    names = public_names()
    assert names - {*LISTED} == set(), "add them to docs/api"
    assert sorted(LISTED) == sorted(names), "remove unknown or repeated names from docs/api"


GUARANTEES = sorted((DOCS / "guarantees").glob("*.md"))


def test_pages_have_markdown_links_and_no_roles():
    found = {
        path.name: re.findall(r"\{(?:doc|ref|py:\w+)\}`", path.read_text(encoding="utf-8"))
        for path in DOCS.rglob("*.md")
    }
    assert {name for name, roles in found.items() if roles} == set()


def test_words_of_the_search_are_few_and_not_on_the_page():
    words = tomllib.loads((DOCS / "search_words.toml").read_text(encoding="utf-8"))
    texts = {page: (DOCS / f"{page}.md").read_text(encoding="utf-8") for page in words}
    plain = {page: " ".join(text.lower().replace("`", "").split()) for page, text in texts.items()}
    assert [page for page, listed in words.items() if len(set(listed)) != len(listed) or len(listed) > 10] == []
    assert [(page, word) for page, listed in words.items() for word in listed if word.lower() in plain[page]] == []
    assert [path.name for path in DOCS.rglob("*.md") if "{index}" in path.read_text(encoding="utf-8")] == []


def test_links_of_the_repository_lead_to_pages_of_the_site():
    rewrite = runpy.run_path(str(DOCS / "_ext" / "skdp_repository.py"))["rewrite_links"]
    page = "docs/guide/models.md"
    for link, shown in [
        ("[a](../../benchmarks/synthesis.py)", "[a](../benchmarks/synthesis.md)"),
        ("[a](../../examples/local/plot_lists.py)", "[a](../gallery/local/plot_lists.rst)"),
        ("[a](../../SECURITY.md#threat-model)", "[a](../project/security.md#threat-model)"),
        ("[a](../answers/cite.md)", "[a](../answers/cite.md)"),
        ("[a](coins.md)", "[a](coins.md)"),
    ]:
        assert rewrite(link, page, page) == shown


def test_guarantees_name_public_objects_and_tests_that_exist():
    text = "".join(path.read_text(encoding="utf-8") for path in GUARANTEES)
    objects = re.findall(r"^- \*\*For:\*\* (.*?)\n-", text, re.MULTILINE | re.DOTALL)
    named = re.findall(r"`(skdp\.[\w.]+)`", " ".join(objects))
    assert [name for name in named if name not in LISTED] == []
    assert {*named} > {f"skdp.{name}" for name in MECHANISMS if name != "OnFitOnly"}
    proofs = re.findall(r"^- \*\*Tests:\*\* (.*)\.$", text, re.MULTILINE)
    assert len(proofs) == text.count("\n**Proof.** ") > 25
    assert [name for name in re.findall(r"`([^`]+)`", " ".join(proofs)) if not (ROOT / name).exists()] == []


ESTIMATORS = [name for name in skdp.__all__ if hasattr(getattr(skdp, name), "fit")]
MECHANISMS = [
    name for name in ESTIMATORS if {"epsilon", "epsilons"} & set(inspect.signature(getattr(skdp, name)).parameters)
]


def test_mechanism_has_a_proof_and_a_row_of_the_table_of_choices():
    proved = "".join(path.read_text(encoding="utf-8") for path in GUARANTEES)
    choices = (DOCS / "choose.md").read_text(encoding="utf-8")
    for name in MECHANISMS:
        assert f"`skdp.{name}`" in proved, f"add a section to docs/guarantees for {name}"
        assert f"`{name}" in choices, f"add a row to docs/choose.md for {name}"


MODULES = sorted((ROOT / "skdp").rglob("*.py"))


def list_linked_pages():
    """Return the pages that warnings link to, such as "guide/encoders#categories-the-domain"."""
    source = "".join(path.read_text(encoding="utf-8") for path in MODULES)
    return set(re.findall(r'"((?:answers|guide)/[\w#-]+)"', source))


def test_pages_of_the_wheel_have_no_directives_and_all_linked_sections():
    pytest.importorskip("mdit_py_plugins")
    hook = runpy.run_path(str(ROOT / ".ci" / "wheel_pages.py"))
    html = {page: hook["render"](page) for page in hook["list_pages"]()}
    assert [page for page in html if re.search(r"\{(doc|py:|index|figure|toctree)|```|\| ---", html[page])] == []
    for page in list_linked_pages():
        name, _, section = page.partition("#")
        assert not section or f'id="{section}"' in html[name], page
    for page in html:
        for link, section in re.findall(r'href="(?!http|#)([^"#]*)#?([^"]*)"', html[page]):
            name = (DOCS / page).parent.joinpath(link).resolve().relative_to(DOCS).with_suffix("").as_posix()
            assert not section or f'id="{section}"' in html[name], (page, link, section)
    assert 'href="../answers/which_epsilon.html' in "".join(html.values())


def test_installed_package_links_to_its_pages_in_html(monkeypatch, tmp_path):
    page = tmp_path / "skdp" / "docs" / "guide" / "attacks.html"
    page.parent.mkdir(parents=True)
    page.touch()
    monkeypatch.setattr(pages, "SITE", None)
    monkeypatch.setattr(pages, "__file__", str(tmp_path / "skdp" / "pages.py"))
    assert pages.address("guide/attacks#limitations") == f"{page.as_uri()}#limitations"


def test_every_warning_names_an_existing_page(monkeypatch):
    monkeypatch.setattr(pages, "SITE", None)
    source = "".join(path.read_text(encoding="utf-8") for path in MODULES)
    named = list_linked_pages()
    assert len(named) > 10
    assert source.count("warnings.warn(") == 1  # in `skdp.pages`, whose function `warn` requires a page
    for page in named:
        name, _, section = page.partition("#")
        path = DOCS / f"{name}.md"
        assert pages.address(page) == path.as_uri() + f"#{section}" * bool(section)
        headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert not section or section in anchors, page


def test_warning_names_the_line_of_its_caller(monkeypatch):
    monkeypatch.setattr(pages, "SITE", "https://host.example")
    with pytest.warns(UserWarning, match="too few rows. See https://host.example/answers/which_epsilon.html") as caught:
        pages.warn("too few rows", UserWarning, about="answers/which_epsilon", stacklevel=1)
    assert caught[0].filename == __file__


def blocks(path):
    """Return the code of a page, block by block."""
    return re.findall(r"^```python\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def run_page(path, skipped, folder, monkeypatch):
    """Run the code of a page from top to bottom, in one namespace."""
    monkeypatch.chdir(folder)  # some code writes files
    namespace = {}
    for code in blocks(path):
        if skipped is None or skipped not in code:
            # Spark resolves a relative path in the folder in which its own process started.
            code = code.replace('"spark-reports"', repr(str(folder / "spark-reports")))
            exec(compile(code, str(path), "exec"), namespace)
    return namespace


EXACT_PAGES = {"which_epsilon", "records"}
"""Pages whose output depends on no draw."""

WITH_SPARK = [path for path in PAGES + ANSWERS if any("pyspark" in code for code in blocks(path))]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # warnings of Spark
@pytest.mark.parametrize("path", WITH_SPARK, ids=lambda path: path.stem)
def test_code_of_pages_runs_on_spark(path, tmp_path, monkeypatch, capsys):
    pytest.importorskip("pyspark")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    run_page(path, None, tmp_path, monkeypatch)
    assert "std_error" in capsys.readouterr().out
    gc.collect()  # Deleted objects of the stopped Spark log errors, which later replays would record.


@pytest.mark.filterwarnings("ignore:Setting a(n item| value)")  # warnings of fairlearn about pandas 3.1
@pytest.mark.parametrize(
    "path",
    often([*PAGES, *ANSWERS], [path for path in PAGES + ANSWERS if path.stem not in SLOW_PAGES]),
    ids=lambda path: path.stem,
)
def test_code_of_pages_runs(path, tmp_path, monkeypatch, capsys):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    found = run_page(path, "pyspark", tmp_path, monkeypatch)
    if path.stem in EXACT_PAGES:
        outputs = re.findall(r"^```text\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        assert capsys.readouterr().out == "".join(outputs)
    if path.stem == "local_model":  # the seed of the hand-written code reveals every value
        is_flipped = np.random.RandomState(0).rand(len(found["codes"])) >= found["p"]
        assert (np.where(is_flipped, 1 - found["released"], found["released"]) == found["codes"]).all()
    pyplot.close("all")


def list_words(output):
    """Return the words of an output, without numbers and without rows, whose values may be random."""
    lines = [line for line in output.lower().splitlines() if not line[:1].isdigit()]
    return re.findall("[a-z]+", re.sub(r"\b(\d\S*e[-+]\d+|nan|none)\b", "", "\n".join(lines)))


@pytest.mark.filterwarnings("ignore:The limits of columns")  # of the fewer rows of a fold
@pytest.mark.filterwarnings("ignore:Setting a(n item| value)")  # warnings of fairlearn about pandas 3.1
@pytest.mark.parametrize(
    "path", often(JOBS, [path for path in JOBS if path.stem not in SLOW_JOBS]), ids=lambda path: path.stem
)
def test_script_of_a_job_prints_its_output(path, tmp_path, monkeypatch, capsys):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    text = path.read_text(encoding="utf-8")
    ((code, output),) = re.findall(r"^```python\n(.*?)^```\n```text\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    exec(compile(code.replace("1_000_000", "20_000"), str(path), "exec"), {})
    assert list_words(capsys.readouterr().out) == list_words(output)
    pyplot.close("all")


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_job_is_short_and_in_the_index(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.split()) <= MAX_JOB_WORDS
    assert f"({path.name})" in (DOCS / "jobs" / "index.md").read_text(encoding="utf-8")
    assert max(len(line) for code in blocks(path) for line in code.splitlines()) <= 75


def test_every_object_has_an_example():
    for name in sorted(LISTED):
        package, _, own = name.rpartition(".")
        thing = inspect.unwrap(getattr(importlib.import_module(package), own))
        head, _, examples = (inspect.getdoc(thing) or "").partition("\nExamples\n--------\n")
        assert ">>> " not in head, name
        assert ">>> " in examples, f"add a section Examples to the docstring of {name}"
        assert re.search(">>> (.*)", examples)[1].startswith(("from ", "import ")), f"{name}: its first line"
        assert re.search(r"^>>> .*\n(\.\.\. .*\n)*(?!>>> |\.\.\. |\n)", examples, re.MULTILINE), f"{name}: no output"


def test_names_in_text_and_code_link_to_the_api():
    link_names = runpy.run_path(str(DOCS / "_ext" / "skdp_names.py"))["_link_names"]
    app = SimpleNamespace(builder=SimpleNamespace(get_relative_uri=lambda page, target: f"{target}.html"))
    literal = '<code class="docutils literal notranslate"><span class="pre">{}</span></code>'
    linked = [literal.format("DPMean"), literal.format("DPMean(0.5)")]
    linked += ['<div class="highlight-python notranslate"><pre><span class="n">DPMean</span></pre>']
    plain = [
        f'<a href="x">{linked[0]}</a>',
        f"<h2>{linked[0]}</h2>",
        literal.format("numpy.DPMean"),
        literal.format("mean"),
    ]
    for page, texts, n_links in [("choose", linked, 1), ("choose", plain, 0), ("api/generated/skdp.DPMean", linked, 0)]:
        for text in texts:
            context = {"body": text}
            link_names(app, page, "", context, None)
            assert context["body"].count('href="api/generated/skdp.DPMean.html#skdp.DPMean"') == n_links, text


def test_identifiers_may_break_between_their_words():
    link_names = runpy.run_path(str(DOCS / "_ext" / "skdp_names.py"))["_link_names"]
    literal = '<code class="docutils literal notranslate"><span class="pre">max_rows_per_person=3.5</span></code>'
    context = {"body": f"<h1>skdp.central.DPMean<a>#</a></h1>{literal}"}
    link_names(SimpleNamespace(), "guide/install", "", context, None)
    assert "<h1>skdp.<wbr/>central.<wbr/>DPMean<a>" in context["body"]
    assert ">max_<wbr/>rows_<wbr/>per_<wbr/>person=3.5<" in context["body"]


def test_long_lines_of_examples_may_break():
    link_names = runpy.run_path(str(DOCS / "_ext" / "skdp_names.py"))["_link_names"]
    linked = '<a class="sphx-glr-backref"><span class="n">DPMean</span></a>'
    code = f'<span class="kn">import</span> <span class="n">numpy</span><span class="w">\n\n  </span>{linked}'
    out = "<span></span>count    1.0\nepsilon = 3, central model, adding or removing one record"
    block = '<div class="{}highlight-{} notranslate"><div class="highlight"><pre>{}\n</pre></div></div>'
    context = {"body": block.format("", "Python", code) + block.format("sphx-glr-script-out ", "none", out)}
    link_names(None, "gallery/plot", "", context, None)
    assert context["body"].count('class="skdp-line"') == 2
    assert '<span class="wrap">epsilon = 3' in context["body"]
