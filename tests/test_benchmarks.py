"""Each benchmark runs: a small cell of each method, through the runner."""

import importlib
import importlib.util
import inspect
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from tests.conftest import often, quick_first

FOLDER = Path(__file__).parent.parent / "benchmarks"


def load_script(name, folder=FOLDER):
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


run = load_script("run")


def load_extension():
    return load_script("skdp_benchmarks", FOLDER.parent / "docs" / "_ext")


def find_scripts():
    """List the scripts, which have no command line."""
    paths = FOLDER.glob("[a-z]*.py")
    return sorted(path.stem for path in paths if "__main__" not in path.read_text())


SLOW_SCRIPTS = {
    "bound_widths",
    "central_models",
    "central_statistics",
    "engines",
    "every_interval",
    "fairness",
    "linked",
    "local_speed",
    "ordinary_tables",
    "synthesis",
    "synthesis_numbers",
    "waits",
}


@pytest.mark.filterwarnings("ignore")  # As in the runner.
@pytest.mark.parametrize("name", often(find_scripts(), {*find_scripts()} - SLOW_SCRIPTS))
def test_cell_of_each_benchmark_runs(name, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)  # As in a script, which imports its neighbors.
    script = load_script(name)
    tables = run.TableCache(script, quick=True)
    seen = set()
    for cell in run.list_cells(script, quick=True):
        if cell.task not in seen:
            seen.add(cell.task)
            answer = run.run_cell(tables, cell)
            assert "failed" not in answer, answer
            assert "skipped" in answer or not any(map(math.isnan, answer["metrics"].values())), answer


def test_only_newest_rows_of_rivals_and_methods_of_the_script_stay(tmp_path):
    rows = [
        {"task": "means", "table": table, "method": method, "epsilon": 1, "seed": 0, "commit": commit, "value": value}
        for value, (table, method, commit) in enumerate(
            [
                ("Adult", "own", "a"),
                ("Adult", "rival", "a"),
                ("Adult", "removed", "a"),
                ("wine", "own", "b"),
                ("Adult", "own", "c"),
            ]
        )
    ]
    frame = run.read_rows([{"metric": "error", "seconds": 0.0, "machine": "any"} | row for row in rows])
    script = SimpleNamespace(TASKS={"means": SimpleNamespace(methods=dict.fromkeys(["own", "rival"]))})
    newest = run.select_newest(frame, script)
    assert newest[["table", "method", "commit", "value"]].values.tolist() == [
        ["Adult", "own", "c", 4],
        ["Adult", "rival", "a", 1],
        ["wine", "own", "b", 3],
    ]
    assert "rival  a        1" in run.format_pivots(newest)
    results = run.ResultFile(tmp_path / "means.csv")
    results.rows = frame.to_dict("records")
    results.keep_newest(script)
    pd.testing.assert_frame_equal(pd.read_csv(results.path), newest.reset_index(drop=True), check_dtype=False)


def test_growth_states_exponents_and_the_largest_size(tmp_path):
    metrics = {"seconds": lambda size: 1e-9 * size**1.5, "random_bytes_per_record": lambda size: 2}
    rows = [
        {"task": "growth with records", "table": f"{size:,} records", "method": "unary", "epsilon": 1, "seed": seed}
        | {"metric": metric, "value": compute(size), "seconds": 0.0, "commit": "a", "machine": "any"}
        for size in (10_000, 100_000, 1_000_000)
        for seed in range(3)
        for metric, compute in metrics.items()
    ]
    parts = load_extension().draw_growth(run.read_rows(rows), tmp_path)
    assert "| records | unary | 1.50 | 1,000,000 | 1,000 | 2 |  |" in parts[-1]
    assert "growth_records.svg" in parts[1]
    assert (tmp_path / "growth_records.svg").stat().st_size > 0


RESULTS = [path.stem for path in sorted((FOLDER / "results").glob("*.csv"))]


@pytest.mark.parametrize("name", quick_first(2, RESULTS))  # pages with all findings are built by `make docs`
def test_finding_of_each_benchmark_page_holds(name, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    headlines = load_script("_headlines")
    finding = headlines.write_finding(headlines.read_results(name), headlines.read_findings()[name])
    assert re.search(r"^[^*]*\d[^*]*\.$", finding)


def test_finding_requires_four_seeds_and_all_tables():
    write_finding = load_script("_headlines").write_finding
    page = {"finding": "The error is {ours:.1f}.", "values": {"ours": {"method": "ours", "table": "Adult"}}}
    rows = pd.concat([list_errors().assign(table=table) for table in ("Adult", "wine")])
    with pytest.raises(ValueError, match="at least 4 seeds"):
        write_finding(rows, page)
    more = pd.concat([rows, rows.assign(seed=rows["seed"] + 2)])
    with pytest.raises(ValueError, match="leaves out \\['wine'\\]"):
        write_finding(more, page)
    page["values"]["other"] = {"method": "ours", "table": "wine"}
    assert write_finding(more, page) == "The error is 0.5."


def test_headline_is_not_shown_if_the_code_of_a_method_has_changed_since_its_rows(tmp_path, monkeypatch):
    headlines = load_script("_headlines")
    monkeypatch.setattr(headlines, "ROOT", tmp_path)

    def commit(text):
        (tmp_path / "method.py").write_text(text)
        run.run_git("add", ".", cwd=tmp_path)
        author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        run.run_git(*author, "commit", "--quiet", "--message", "change", cwd=tmp_path)
        return run.run_git("rev-parse", "--short=8", "HEAD", cwd=tmp_path)

    def write_headline(code, **more):
        page = {
            "finding": "The error is {ours:.1f} in one run.",
            "code": [code],
            "values": {"ours": {"method": "ours"}},
        }
        return headlines.write_headline(list_errors().assign(commit=first), page | more)

    run.run_git("init", "--quiet", cwd=tmp_path)
    first = commit("noise = 1")
    assert write_headline("method.py") == "**The error is 0.5 in one run.**"
    commit('"""Noise."""\nnoise = 1  # of a count')
    assert write_headline("method.py") == "**The error is 0.5 in one run.**"
    first = commit("from math import exp\ndef grow(x):\n    return exp(x)")
    commit("from math import exp\nfrom typing import Any\ndef grow(x: Any) -> Any:\n    return exp(x)")
    assert write_headline("method.py") == "**The error is 0.5 in one run.**"
    commit("from numpy import exp\ndef grow(x):\n    return exp(x)")
    assert write_headline("method.py").endswith("Since then, a file changed: `method.py`.")
    commit("noise = 2")
    assert write_headline("method.py").endswith("Since then, a file changed: `method.py`.")
    assert write_headline(".").endswith("`method.py`.")
    assert write_headline("other.py") == "**The error is 0.5 in one run.**"
    assert write_headline("method.py", rivals=["ours"]) == "**The error is 0.5 in one run.**"
    first = "0123abcd"
    assert write_headline("method.py").startswith("No headline: the commits")


def test_slower_method_must_be_in_an_item_of_the_changelog():
    seconds = [
        ("small", "PCA", 1.4),
        ("small", "PCA", 1.3),
        ("small", "PCA, before", 1.0),
        ("large", "scaler", 1.3),
        ("large", "scaler", 1.1),
        ("large", "scaler, before", 1.0),
        ("large", "new", 9.0),
    ]
    rows = pd.DataFrame(seconds, columns=["table", "method", "value"]).assign(metric="seconds")
    list_slower = load_script("_headlines").list_slower
    assert list_slower(rows, "Unreleased\n\n- PCA finds scales.\n- A scaler is slower.") == ["PCA"]
    assert list_slower(rows, "Unreleased\n\n- Small tables are slower:\n  `PCA`.") == []


def test_code_of_each_headline_is_in_the_repository():
    headlines = load_script("_headlines")
    missing = [
        path
        for page in headlines.read_findings().values()
        for path in page["code"]
        if not (headlines.ROOT / path).exists()
    ]
    assert not missing


def list_errors():
    """Return the errors of two methods, of a bound below them, and of a method without privacy, by epsilon."""
    errors = {"ours": (0.8, 0.12345), "rival": (0.8, 0.2), "bound": (0.1, 0.1)}
    rows = [
        {"task": "counts", "method": method, "epsilon": epsilon, "seed": seed, "value": value + 0.001 * seed}
        for method, values in errors.items()
        for epsilon, value in zip((10.0, 1.0), values[::-1], strict=True)
        for seed in range(2)
    ]
    rows.append({"task": "no noise", "method": "exact", "epsilon": math.inf, "seed": 0, "value": 0.0})
    shared = {"table": "Adult", "metric": "error", "seconds": 0.0, "commit": "a", "machine": "any"}
    return run.read_rows([shared | row for row in rows])


def test_benchmark_table_has_epsilon_ascending_and_the_best_methods_in_bold():
    script = SimpleNamespace(__doc__="Errors.")
    page = {"finding": "The error is {ours:.1%} in one run.", "bounds": ["bound"], "rivals": ["ours"]}
    page["values"] = {"ours": {"method": "ours", "epsilon": 10.0}}
    text = load_extension().write_page("errors", list_errors(), script, page)
    assert text.startswith("# Errors\n\n**The error is 12.4 % in one run.**\n\nErrors.")
    assert text.endswith(
        """## Counts

### Error

:::{table}
:class: skdp-results

| Table | Method | ε = 1 | ε = 10 | no privacy |
| :-- | :-- | --: | --: | --: |
| Adult | ours | 0.80050 ± 0.00050 | **0.12395 ± 0.00050** |  |
|  | rival | 0.80050 ± 0.00050 | 0.20050 ± 0.00050 |  |
|  | bound | 0.10050 ± 0.00050 | 0.10050 ± 0.00050 |  |
|  | exact |  |  | 0 |
:::"""
    )


@pytest.mark.parametrize(
    ("difference", "seeds", "exact", "is_best"),
    [(0.01, 4, False, True), (0.0015, 4, False, False), (0.01, 1, False, False), (0.002, 1, True, True)],
)
def test_best_method_is_bold_only_beyond_the_errors(difference, seeds, exact, is_best):
    """Four seeds have a standard error of 0.00065 for each method."""
    shared = {"task": "counts", "table": "Adult", "metric": "error", "epsilon": 1.0, "seconds": 0.0, "commit": "a"}
    rows = [
        shared | {"machine": "any", "method": method, "seed": seed, "value": value + 0.001 * seed}
        for method, value in (("ours", 0.1), ("rival", 0.1 + difference))
        for seed in range(seeds)
    ]
    page = {"finding": "{ours:.1f} in one run", "values": {"ours": {"method": "ours"}}, "exact": exact}
    page["rivals"] = ["ours"]
    text = load_extension().write_page("errors", run.read_rows(rows), SimpleNamespace(__doc__="Errors."), page)
    assert ("| Adult | ours | **" in text) == is_best
    assert "rival | **" not in text


@pytest.mark.parametrize(("method", "message"), [("removed", "no rows"), ("bound", "rewrite the finding")])
def test_finding_that_does_not_hold_is_an_error(method, message):
    page = {"finding": "{ours} in one run", "ascending": ["ours", "other"]}
    page["values"] = {"ours": {"method": "ours"}, "other": {"method": method}}
    with pytest.raises(ValueError, match=message):
        load_script("_headlines").write_finding(list_errors(), page)


def test_marked_tables_of_pages_are_the_newest_rows(monkeypatch):
    """Pages had other numbers in the repository than on the site. `python docs/_ext/skdp_benchmarks.py` writes them."""
    monkeypatch.syspath_prepend(FOLDER)
    extension = load_extension()
    pages = extension.list_marked_pages()
    assert pages
    for page in pages:
        text = page.read_text(encoding="utf-8")
        marked = extension.MARKED.findall(text)
        assert len(marked) == text.count("<!-- results: ") == text.count("<!-- end of results -->")
        assert all({*tasks.split(", ")} <= {*load_script(name).TASKS} for name, tasks, *_ in marked)
        assert extension.insert_results(text) == text


def test_marked_table_has_a_column_for_each_task(monkeypatch):
    extension = load_extension()
    row = {"metric": "AUC", "seed": 0, "machine": "M", "commit": "b"}
    values = [("9 rows", "a", "own", 0.71), ("9 rows", "b", "own", 0.73), ("8 rows", "a", "own", 0.6)]
    values += [("9 rows", "a", "other", 0.5), ("1 row", "a", "own", 0.1)]
    keys = ["task", "table", "method", "value", "epsilon"]
    rows = [row | dict(zip(keys, (*group, 1.0), strict=True)) for group in values]
    rows.append(rows[0] | {"epsilon": 3.0, "value": 0.9})
    monkeypatch.setattr(
        extension, "read_results", lambda name: pd.DataFrame(rows if name == "ours" else rows[:0], columns=[*rows[0]])
    )
    mark = "A\n<!-- results: {}: 9 rows, 8 rows at epsilon 1 -->\nold\n<!-- end of results -->\nB\n"
    found = extension.insert_results(mark.format("ours") + mark.format("others"))
    assert found.splitlines()[1:8] == [
        "<!-- results: ours: 9 rows, 8 rows at epsilon 1 -->",
        "| AUC | 9 rows (2 tables) | 8 rows (1 table) |",
        "| --- | --- | --- |",
        "| own | 0.720 | 0.600 |",
        "| other | 0.500 |  |",
        "",
        "Commit: b. Machine: M.",
    ]
    assert found.endswith(mark.format("others"))


def test_table_of_a_law_counts_the_tables_that_keep_it():
    pytest.importorskip("matplotlib")
    values = [("ours", 1.0, 1), ("ours", 1.0, 0), ("ours", 10_000.0, 1), ("ours", 10_000.0, 1)]
    rows = pd.DataFrame(values, columns=["method", "epsilon", "value"]).assign(metric="kept")
    assert load_extension().count_kept(rows) == [["Method", "ε = 1", "ε = 10,000"], ["ours", "1 of 2", "2 of 2"]]


PACKAGES = ["skdp", *(f"skdp.{name}" for name in ("central", "engines", "evaluation", "local", "metrics", "survey"))]

# Functions that return measured intervals, and functions without intervals of their own.
EQUAL = {
    "DPCategoricalNB.class_count_std_error_": "DPGaussianNB.class_count_std_error_",
    "LocalTableEncoder.estimate_joint_counts": "RandomizedResponseEncoder.estimate_joint_counts",
    "LocalTableEncoder.estimate_mean": "NumericPerturber.estimate_mean",
    "ReportLinearRegression.summary": "ReportLogisticRegression.summary",
    "estimate_file": "RandomizedResponseEncoder.estimate_counts",
}
EXCLUDED = {
    "grade_estimates": "letters of intervals that are passed",
}
# Errors in the tables of `summary`, `shape_` and `to_frame`, which are measured.
IN_TABLES = {"coef_std_error_", "intercept_std_error_", "shapes_std_error_", "std_error_"}


def find_measure(name):
    """Return the function that makes the intervals, which classes may inherit."""
    owner, _, member = name.partition(".")
    for package in PACKAGES:
        found = getattr(importlib.import_module(package), owner, None)
        if found is not None:
            return getattr(found, member).__qualname__ if hasattr(found, member) else name
    raise AssertionError(name)


def list_intervals():
    """List public callables with `confidence_level`, and fitted attributes that are standard errors."""
    for package in map(importlib.import_module, PACKAGES):
        for name in package.__all__:
            found = getattr(package, name)
            if not inspect.isclass(found):
                if inspect.isfunction(found) and has_level(found):
                    yield name
                continue
            if has_level(found):
                yield name
            members = inspect.getmembers(found, inspect.isfunction)
            yield from (f"{name}.{key}" for key, member in members if key[0] != "_" and has_level(member))
            attributes = re.findall(r"^(\w*std_error_) : ", inspect.getdoc(found) or "", re.MULTILINE)
            yield from (f"{name}.{attribute}" for attribute in attributes if attribute not in IN_TABLES)


def has_level(found):
    function = found.__init__ if inspect.isclass(found) else found
    return "confidence_level" in inspect.signature(function).parameters


def test_each_public_interval_is_measured(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    releases = load_script("every_interval").RELEASES
    measured = {name for release in releases.values() for name in release.names}
    known = {find_measure(name) for name in [*measured, *EQUAL, *EXCLUDED]}
    assert not {name for name in list_intervals() if find_measure(name) not in known}
    assert {*EQUAL.values()} <= measured


def test_equal_and_excluded_intervals_exist():
    assert {*EQUAL, *EXCLUDED} <= {*list_intervals()}


def test_steps_to_more_rows_or_budget_with_larger_errors_are_listed(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    errors = {(500, 1.0): 0.4, (500, 4.0): 0.2, (2_000, 1.0): 0.2, (2_000, 4.0): 0.3}
    rows = [
        {"method": "mean", "table": f"normal, {n:,} rows", "epsilon": epsilon, "value": error + 0.001 * seed}
        for (n, epsilon), error in errors.items()
        for seed in range(4)
    ]
    broken = load_script("more").list_broken(pd.DataFrame(rows))
    assert [step.split(":")[1].strip() for step in broken] == [
        "(500, 4.0) -> (2000, 4.0)",
        "(2000, 1.0) -> (2000, 4.0)",
    ]
