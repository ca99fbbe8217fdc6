from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.tree import DecisionTreeClassifier

from skdp import Domain, Interval
from skdp.cli import main
from skdp.cli._evaluate import find
from skdp.datasets import load_adult
from skdp.evaluation import age_sex_report, study_report
from skdp.evaluation.report import _figures, _report
from skdp.evaluation.report._progress import in_proportion
from skdp.evaluation.report._summary import _of_leakage, _of_synthesis, difference
from tests.conftest import each


class Page(HTMLParser):
    """What a browser would read and load."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.open, self.words, self.headings = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)
        self.loads += [value for name, value in attributes if name in ("src", "href") and not value.startswith("#")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(" ".join(data.split()))
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


SECTIONS = [
    "In short",
    "Counts",
    "Errors of the counts",
    "Accuracy",
    "Fairness",
    "Fairness seen through reports",
    "Leakage",
    "Synthetic rows",
    "What is protected, and what is not",
]


def _save_nothing(monkeypatch):
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **options: file.write("<svg/>"))


def _draw_nothing(monkeypatch):
    for name in [name for name in vars(_report) if name.endswith("_figure")]:
        monkeypatch.setattr(_report, name, lambda *args: "<svg/>")


@pytest.fixture
def _figures_are_not_drawn(monkeypatch):
    """Leave them out where a page is read for its words: they take half of the time."""
    _draw_nothing(monkeypatch)


TREE = {"tree": DecisionTreeClassifier(max_depth=3, random_state=0)}


def read(path):
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def adult():
    """1,000 rows and the half of the columns of Adult that tells more."""
    X, y = load_adult(subset="all", dropna=True, return_X_y=True)
    less = ["workclass", "race", "capital-loss", "native-country", "marital-status"]
    return X.iloc[:1000].drop(columns=less), y.iloc[:1000]


@pytest.fixture(scope="module")
def report(adult, tmp_path_factory, few_trees):
    out = tmp_path_factory.mktemp("report") / "deep" / "folder"
    steps = []

    def progress(total):
        steps.append(total)
        return lambda: steps.append(1)

    options = {"epsilons": [0.5, 5.0], "repeats": 4, "model_repeats": 2, "classifiers": TREE, "random_state": 0}
    page = age_sex_report(*adult, out, progress=progress, **options)
    assert len(steps) - 1 == steps[0] == 100
    return page, read(page)


def test_the_page_is_well_formed_and_loads_nothing(report):
    path, page = report
    assert page.open == []
    assert len(page.loads) > 12
    assert all(source.startswith("data:") for source in page.loads)
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"https?://(?!www\.w3\.org)", text.split("</style>")[0])
    targets = re.findall(r'href="#([^"]+)"', text)
    assert len(targets) == len(SECTIONS)
    assert all(f'id="{target}"' in text for target in targets)


def test_the_page_has_all_sections(report):
    assert report[1].headings == SECTIONS


def test_the_page_opens_with_the_numbers_of_its_tables(report):
    path, page = report
    words = " ".join(" ".join(page.words).split()).split("In short")[-1].split("Counts One release")[0]
    tables = {name: pd.read_csv(path.parent / f"{name}.csv") for name in ("release_counts", "leakage", "synthesis")}
    counts, leakage, synthesis = (table[table["epsilon"] == 0.5] for table in tables.values())
    assert f"± {((counts['upper'] - counts['lower']) / 2).max():,.0f} (95 % intervals" in words
    assert f"right for {leakage['with the report'].iloc[0]:.1%} of records" in words
    off = synthesis.loc[synthesis["metric"] == "mean error of 2-way marginals", "value"].iloc[0]
    assert f"pairs of columns are off by {off:.1%} on average" in words
    scores = pd.read_csv(path.parent / "model_scores.csv").set_index(["setting", "metric"])
    cost = scores.loc[("0.5", "accuracy")]
    assert cost["difference"] == pytest.approx(cost["mean"] - scores.loc[("not private", "accuracy"), "mean"])
    assert cost["lower"] < 0 < cost["upper"]  # of two splits
    assert f"{cost['upper']:.3f}), which may be chance" in words
    values = pd.read_csv(path.parent / "leakage_by_value.csv").query("epsilon == 0.5")
    assert f"in {values['auc'].max():.1%} of pairs (AUC; 95 % interval of this value" in words


def test_what_is_learned_of_each_value_is_on_the_page(report):
    path, page = report
    values = pd.read_csv(path.parent / "leakage_by_value.csv").query("epsilon == 0.5").set_index("value")
    words = " ".join(" ".join(page.words).split())
    for value, row in values.iterrows():
        low, high = row["auc_lower"], row["auc_upper"]
        assert low < row["auc"] < high
        assert f"{value} {row['share']:.1%} {row['auc']:.3f} ({low:.3f} to {high:.3f})" in words
        assert f"{row['precision']:.0%} ({row['precision_lower']:.0%} to {row['precision_upper']:.0%})" in words


def test_every_figure_has_a_caption(report):
    text = report[0].read_text(encoding="utf-8")
    assert len(re.findall(r"<figure><img alt=\"[^\"]{10,}\"", text)) == text.count("<figcaption>") == text.count("<img")


def test_the_page_says_what_it_must(report):
    text = " ".join(report[1].words)
    for phrase in (
        "not private",
        "95 % intervals",
        "closed-form rms L2",
        "left out",
        "unprivileged − privileged",
        "true sex used for scoring",
        "must not depend on the noise of the reports",
        "No guess from the report alone",
        "trained on synthetic rows",
        "relationship (Husband or Wife) tells the sex",
        "declared, not read from the data",
        "delta = 1e-9",
        "from the seed 0",
    ):
        assert phrase in text


class TestTables:
    @pytest.fixture
    def table(self, report):
        return lambda name: pd.read_csv(report[0].parent / f"{name}.csv")

    def test_all_are_written_and_named(self, report):
        names = {path.name for path in report[0].parent.iterdir()} - {"index.html"}
        assert len(names) == 8
        footer = " ".join(report[1].words)
        assert all(name in footer for name in names)

    def test_counts(self, table):
        counts = table("release_counts")
        assert counts.columns.tolist() == ["epsilon", "age", "sex", "true", "count", "std_error", "lower", "upper"]
        assert counts.groupby("epsilon")["true"].sum().tolist() == [1000, 1000]
        assert set(table("count_errors")["postprocess"]) == {"none", "clip", "simplex", "mle"}

    def test_scores(self, table):
        scores = table("model_scores")
        assert scores["setting"].unique().tolist() == ["not private", "0.5", "5.0", "left out"]
        assert len(scores) == 4 * 7
        assert (scores["count"] == 2).all()

    def test_audits(self, table):
        """At epsilon 5 the debiased values are near the true ones; at 0.5 the reports hide most of the difference."""
        audits = table("fairness_audits").query("metric == 'statistical parity difference'").set_index("epsilon")
        assert audits["true groups"].nunique() == 1
        row = audits.loc[5]
        assert abs(row["debiased reports"] - row["true groups"]) < row["upper"] - row["lower"]  # 3.9 standard errors
        assert abs(audits.loc[0.5, "reports taken for groups"]) < abs(audits.loc[0.5, "true groups"]) / 2

    def test_leakage(self, table):
        leakage, carriers = table("leakage"), table("carriers")
        assert leakage["without the report"].nunique() == 1  # the same rows and folds
        assert leakage["with the report"].iloc[1] > leakage["without the report"].iloc[1] > leakage["prior"].iloc[1]
        assert leakage["with the report"].iloc[0] < 0.92  # the truth is not among what is released
        alone = carriers[carriers["epsilon"] == 5].set_index("column")["alone"]
        assert alone.nlargest(2).index.tolist() == ["sex", "relationship"]

    def test_synthesis(self, table):
        synthesis = table("synthesis").pivot(index="epsilon", columns="metric", values="value")
        errors = synthesis["mean error of 2-way marginals"]
        assert errors[5.0] < errors[0.5]
        assert np.isnan(errors[np.inf])
        assert synthesis["AUC, trained on synthetic rows"].notna().all()


def test_panels_are_laid_out_without_the_last_bits_of_the_solver():
    # Names of clips are hashes of them, and in half of the drawings of five panels they were others.
    with _figures._new_panels(rows=5, height=8.6, ratios=[2, 2, 2, 3, 1.2]) as panels:
        panels[0].figure.get_layout_engine().execute(panels[0].figure)
        corners = np.array([panel.get_position().p0 for panel in panels])
    assert (corners == corners.round(9)).all()


def test_letters_that_only_the_reader_has_are_drawn_without_a_warning():
    """Warnings are errors here; the font by which panels are laid out has no Chinese letters."""
    carriers = pd.DataFrame({"is_report": [True, False], "alone": [0.6, 0.4]}, index=["群体", "age"])
    assert "群体" in _figures.carriers_figure(carriers, 0.5, "群体")


@pytest.mark.usefixtures("_figures_are_not_drawn", "few_trees")
class TestStudyReport:
    @pytest.fixture
    def people(self):
        """Women are on call; shoes tell the sex; pay is of several kinds."""
        rng = np.random.default_rng(0)
        sex = rng.choice(["F", "M"], 300)
        pay = np.where(rng.random(300) < np.where(sex == "M", 0.7, 0.2), "high", rng.choice(["low", "none"], 300))
        shoes = np.where(sex == "M", 43, 38) + rng.integers(-1, 2, 300)
        return pd.DataFrame({"sex": sex, "age": rng.integers(18, 80, 300), "shoes": shoes, "pay": pay})

    @pytest.fixture
    def domain(self):
        return Domain({"sex": ["F", "M"], "age": Interval(edges=[0, 40, 80])})

    @staticmethod
    def run(people, domain, out, **options):
        defaults = {"epsilons": [2.0], "repeats": 2, "model_repeats": 1, "classifiers": TREE, "random_state": 3}
        return study_report(people, domain, out, source="people", **defaults | options)

    def test_without_a_target(self, people, domain, tmp_path):
        page = read(self.run(people, domain, str(tmp_path)))
        assert [name for name in page.headings if name not in SECTIONS] == ["Accuracy and fairness"]
        text = " ".join(page.words)
        assert "no column to predict was named" in text
        assert "trains and uses its models" not in text
        assert "Synthesised: sex, age; of other columns nothing is declared." in text
        assert not (tmp_path / "model_scores.csv").exists()
        carriers = pd.read_csv(tmp_path / "carriers.csv").set_index("column")
        assert carriers["alone"].idxmax() == "shoes"

    @pytest.mark.long
    def test_with_a_target_without_groups(self, people, domain, tmp_path):
        page = read(self.run(people, domain, tmp_path, target="pay", positive_label="high"))
        assert page.headings == [name for name in SECTIONS if name != "Fairness seen through reports"]
        assert "no groups to compare were named" in " ".join(page.words)
        assert set(pd.read_csv(tmp_path / "model_scores.csv")["metric"]) == {"accuracy", "AUC"}

    @pytest.mark.long
    def test_all_columns_may_be_protected_and_named_as_numbers_of_the_report(self, people, tmp_path, monkeypatch):
        monkeypatch.undo()  # figures have these names, too
        _save_nothing(monkeypatch)
        people = people[["sex", "pay"]].rename(columns={"sex": "count"}).assign(epsilon=["$ 1", "$ 2"] * 150)
        domain = Domain({"count": ["F", "M"], "epsilon": ["$ 1", "$ 2"]})
        options = {"target": "pay", "positive_label": "high", "sensitive": "count", "privileged": ["M"]}
        page = read(self.run(people, domain, tmp_path, **options))
        assert page.headings == SECTIONS
        counts = pd.read_csv(tmp_path / "release_counts.csv")
        assert counts.columns[:4].to_list() == ["epsilon", "count_value", "epsilon_value", "true"]
        assert "count, epsilon_value" in page.words
        text = " ".join(page.words)
        assert not [phrase for phrase in ("other columns give away", "every other column") if phrase in text]
        scores = pd.read_csv(tmp_path / "model_scores.csv").set_index(["setting", "metric"])["mean"]
        assert scores["left out", "AUC"] == 0.5

    @pytest.mark.long
    def test_groups_may_be_bins(self, people, domain, tmp_path):
        options = {"target": "pay", "positive_label": "high", "sensitive": "age", "privileged": "[40, 80]"}
        page = read(self.run(people, domain, tmp_path, **options))
        assert page.headings == SECTIONS
        assert "the true age used for scoring" in " ".join(page.words)

    def test_other_declared_columns_are_synthesised(self, people, domain, tmp_path):
        domain = Domain({"sex": ["F", "M"], "shoes": Interval(edges=[30, 40, 50])})
        page = read(self.run(people, domain, tmp_path, columns=["sex"], delta=0.0))
        text = " ".join(" ".join(page.words).split())
        assert "Synthesised: sex, shoes; of other columns" in text
        # Nothing is said of what there is not: several columns, a target, a delta for shuffled reports.
        assert "The protected column of a record is randomised before it leaves the owner" in text
        assert "otherwise as the other one (randomised response)" in text
        assert not [phrase for phrase in ("dashed black", "models on them", "together,") if phrase in text]
        assert pd.read_csv(tmp_path / "release_counts.csv").columns[1] == "sex"

    @pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.long)])
    def test_a_seed_repeats_and_another_does_not(self, people, domain, tmp_path, monkeypatch, whole):
        options, drawn = {}, ["index.html", "release_counts.csv", "count_errors.csv", "synthesis.csv"]
        if whole:
            monkeypatch.undo()  # figures repeat, too
            options = {"target": "pay", "positive_label": "high", "sensitive": "sex", "privileged": ["M"]}
            drawn.append("fairness_audits.csv")
        pages = [self.run(people, domain, tmp_path / name, random_state=1, **options) for name in ("one", "two")]
        _draw_nothing(monkeypatch)
        pages.append(self.run(people, domain, tmp_path / "three", random_state=2, **options))
        one, two, three = (
            {path.name: path.read_bytes() for path in page.parent.iterdir() if path.suffix in (".csv", ".html")}
            for page in pages
        )
        assert one == two
        for name in drawn:
            assert one[name] != three[name]

    def test_a_column_of_one_value_leaks_nothing(self, people, tmp_path):
        page = read(self.run(people.assign(sex="F"), Domain({"sex": ["F", "M"]}), tmp_path))
        assert "no protected column has several values" in " ".join(page.words)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"columns": ["shoes"]}, "the domain must declare the columns to protect; it lacks ['shoes']"),
            ({"target": "income"}, "the table has no columns ['income']"),
            ({"target": "sex"}, "`target` 'sex' cannot be one of the protected columns"),
            ({"target": "pay", "positive_label": "huge"}, "`positive_label` must be the value of `target` 'pay' in at"),
            ({"sensitive": "sex"}, "`sensitive` needs `target`"),
            (
                {"target": "pay", "positive_label": "high", "sensitive": "shoes"},
                "`sensitive` must be one of the protected",
            ),
            (
                {"target": "pay", "positive_label": "high", "sensitive": "sex", "privileged": "X"},
                "`privileged` must be some of the values of `sensitive` 'sex', and not all, that are declared: ['F'",
            ),
            (
                {"target": "pay", "positive_label": "high", "sensitive": "sex", "privileged": ["F", "M"]},
                "`privileged` must be some of the values of `sensitive` 'sex', and not all",
            ),
            ({"epsilons": [1.0, 1.0]}, "`epsilons` must be distinct"),
        ],
    )
    def test_mistakes_are_explained(self, people, domain, tmp_path, options, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            self.run(people, domain, tmp_path / "out", **options)
        assert not (tmp_path / "out").exists()

    def test_a_folder_is_text_or_a_path(self, people, domain):
        with pytest.raises(TypeError, match="`out` must be a path, got int"):
            self.run(people, domain, 3)

    @pytest.mark.parametrize("below", ["page", "page/folder"])
    def test_a_file_in_the_place_of_the_folder_is_found_at_once(self, people, domain, tmp_path, below):
        (tmp_path / "page").write_text("")
        started = []
        with pytest.raises(ValueError, match="`out` must be a folder, but 'page' is a file"):
            self.run(people, domain, tmp_path / below, progress=started.append)
        assert not started

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"epsilons": [1.0, -1.0]}, ValueError),
            ({"repeats": 0}, ValueError),
            ({"model_repeats": 0}, ValueError),
            ({"delta": 2}, ValueError),
        ],
    )
    def test_numbers_out_of_range_are_found_at_once(self, people, domain, tmp_path, options, error):
        started = []
        with pytest.raises(error):
            self.run(people, domain, tmp_path / "out", progress=started.append, **options)
        assert not started

    def test_a_group_that_nobody_is_in_is_found_at_once(self, people, tmp_path):
        domain, started = Domain({"sex": ["F", "M", "X"]}), []
        given = {"target": "pay", "positive_label": "high", "sensitive": "sex", "progress": started.append}
        for privileged, message in (("X", "has no such rows"), (["F", "M"], "has none but such rows")):
            with pytest.raises(ValueError, match=message):
                self.run(people, domain, tmp_path / "out", privileged=privileged, **given)
        assert not started

    @pytest.mark.long
    def test_missing_values_of_the_sensitive_column_are_a_group(self, people, tmp_path):
        people["sex"] = people["sex"].where(np.arange(len(people)) % 7 > 0, None)
        domain = Domain({"sex": ["F", "M", None]})
        page = self.run(
            people,
            domain,
            tmp_path / "out",
            target="pay",
            positive_label="high",
            sensitive="sex",
            privileged="M",
            classifiers=TREE,
        )
        page = read(page)
        assert "Fairness seen through reports" in page.headings
        assert f"rows, {people['sex'].isna().sum()} of them without a value)" in " ".join(page.words)

    def test_missing_targets_and_undeclared_values_show_no_value(self, people, domain, tmp_path):
        people.loc[0, "pay"] = None
        with pytest.raises(ValueError, match="`target`: column 'pay' has missing values"):
            self.run(people, domain, tmp_path, target="pay", positive_label="high")
        people.loc[0, "age"] = 12345
        with pytest.raises(ValueError, match="column 'age' holds a value") as caught:
            self.run(people, domain, tmp_path)
        assert "12345" not in str(caught.value)


@each(
    "interval, text",
    [
        ((-0.0471, -0.0804, -0.014), "privacy costs 0.047 (95 % interval 0.014 to 0.080)"),
        ((0.02, 0.01, 0.03), "privacy adds 0.020 (95 % interval 0.010 to 0.030)"),
        ((-0.0001, -0.002, 0.001), "a difference of 0.000 (95 % interval −0.002 to 0.001), which may be chance"),
        ((-0.01, np.nan, np.nan), "−0.010 on one split of the rows"),
        ((0.05, -2.4, 2.5), "a difference of 0.050 (95 % interval −1.000 to 1.000), which may be chance"),
    ],
)
def test_only_what_is_beyond_chance_is_called_a_cost(interval, text):
    assert difference(*interval) == text


@pytest.mark.parametrize(("lower", "text"), [(0.51, "Best known is r1 (4.0% of the rows)"), (0.49, "Of no value")])
def test_only_a_value_that_is_known_better_than_by_chance_is_called_known(lower, text):
    shares = {"epsilon": [1.0], "with the report": [0.06], "without the report": [0.04], "prior": [0.11]}
    values = {"value": ["r1"], "share": [0.04], "auc": [0.57], "auc_lower": [lower], "auc_upper": [0.65]}
    tables = {"leakage": pd.DataFrame(shares), "leakage_by_value": pd.DataFrame({"epsilon": [1.0]} | values)}
    lines = _of_leakage(tables, 1.0, "region")
    assert lines[1].startswith(text)
    assert f"{lower:.1%} to 65.0%" in lines[1]


def test_a_word_is_a_number_if_the_column_holds_numbers():
    """A column of whole numbers with missing ones is read as fractions."""
    assert find("1", [1.0, 2.5]) == find("1.0", [1.0, 2.5]) == 1.0
    assert find("1", ["1", "2"]) == "1"
    assert find("x", [1.0]) == "x"


def test_the_bar_is_shared_out_by_the_expected_times():
    steps = []
    advance = in_proportion([1, 1, 6, 2], lambda total: steps.append(total) or (lambda: steps.append(1)))
    shown = []
    for _ in range(4):
        advance()
        shown.append(len(steps) - 1)
    assert steps[0] == 100
    assert shown == [10, 20, 80, 100]


OF_RICH = ["--data", "OWN", "--columns", "sex", "--target", "rich", "--positive"]


@pytest.mark.usefixtures("_figures_are_not_drawn", "few_trees")
class TestCommand:
    @pytest.fixture
    def own(self, tmp_path):
        rng = np.random.default_rng(0)
        sex = rng.choice(["F", "M"], 300)
        frame = pd.DataFrame(
            {
                "sex": sex,
                "age": rng.integers(18, 80, 300),
                "mark": rng.choice(["x", None], 300),
                "rich": (rng.random(300) < np.where(sex == "M", 0.6, 0.3)).astype(int),
                "hours": np.where(rng.random(300) < 0.1, np.nan, rng.normal(40, 5, 300)),
                "name": [f"secret {index}" for index in range(300)],
                "same": "x",
            }
        )
        path = tmp_path / "own <table>.csv"
        frame.to_csv(path, index=False)
        return path

    @staticmethod
    def run(*words):
        words = ["report", "--epsilon", 1, "--repeats", 2, "--model-repeats", 1, "--jobs", 1, "--seed", 1, *words]
        return main([str(word) for word in words])

    @pytest.mark.long
    def test_own_data(self, own, tmp_path, capsys):
        out = tmp_path / "out"
        words = ["--data", own, "--columns", "sex", "age", "mark", "--edges", "age=0,38,120", "--epsilon", 1, 4]
        assert self.run(*words, "--delta", "1e-6", "--out", out) == 0
        assert str(out / "index.html") in capsys.readouterr().out
        text = (out / "index.html").read_text(encoding="utf-8")
        assert "own &lt;table&gt;.csv" in text
        assert "The values, or bins, of sex, mark, rich, hours, same were read from the data" in text
        assert "Synthesised: sex, age, mark, rich, hours, same; of other columns nothing is declared." in text
        assert "delta = 1e-6" in text
        assert "secret" not in text
        counts = pd.read_csv(out / "release_counts.csv")
        assert counts["age"].unique().tolist() == ["[0, 38)", "[38, 120]"]
        assert len(counts) == 2 * 2 * 2 * 2

    def test_a_target_groups_and_a_domain_file(self, own, tmp_path):
        path = tmp_path / "domain.toml"
        declared = {"sex": ["F", "M"], "hours": Interval(edges=[0, 40, 100], missing=True)}
        path.write_text(Domain(declared).to_toml(), encoding="utf-8")
        words = ["--data", own, "--columns", "sex", "--domain", path, "--target", "rich", "--positive", 1]
        assert self.run(*words, "--sensitive", "sex", "--privileged", "M", "--out", tmp_path / "out") == 0
        page = read(tmp_path / "out" / "index.html")
        assert page.headings == SECTIONS
        text = " ".join(page.words)
        assert "Synthesised: sex, hours, rich; of other columns" in text
        assert "read from the data" not in text
        assert "secret" not in text
        scores = pd.read_csv(tmp_path / "out" / "model_scores.csv")
        assert set(scores["classifier"]) == {"logistic regression", "gradient boosting"}

    @pytest.mark.long
    def test_own_parquet(self, own, tmp_path):
        path = tmp_path / "own.parquet"
        pd.read_csv(own).to_parquet(path)
        assert self.run("--data", path, "--columns", "sex", "--out", tmp_path / "out") == 0

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--epsilon", "0"], "an epsilon is a finite number > 0"),
            (["--epsilon", "inf"], "an epsilon is a finite number > 0"),
            (["--epsilon", "x"], "an epsilon is a finite number > 0"),
            (["--repeats", "0"], "a whole number of at least 1"),
            (["--seed", "-1"], "a seed is a whole number"),
            (["--jobs", "0"], "a whole number of at least 1"),
            (["--delta", "1"], "a delta is a number in [0, 1)"),
            (["--epsilon", "1", "2", "1.0"], "--epsilon names something twice"),
            (
                ["--data", "OWN", "--columns", "sex", "--out", "FILE"],
                "--out must be a folder, but 'own <table>.csv' is a file",
            ),
            (["--data", "OWN", "--columns", "same"], "--columns: ['same'] can have one value only"),
            (
                [*OF_RICH, "2", "--sensitive", "sex", "--privileged", "M"],
                "--positive must be the value of --target 'rich'",
            ),
            ([*OF_RICH, "1", "--sensitive", "sex", "--privileged", "X"], "--privileged must be some of the values of"),
            ([*OF_RICH, "1", "--sensitive", "rich", "--privileged", "M"], "--sensitive must be one of the protected"),
            (["--data", "OWN", "--columns", "sex", "sex"], "--columns names something twice"),
            (["--data", "OWN", "--columns", "age", "--edges", "age=20,60"], "column 'age' holds a value, or a missing"),
            (["--columns", "sex"], "--data and --columns go together"),
            (["--edges", "age=0,1"], "--edges goes with --data"),
            (["--target", "rich"], "--target goes with --data"),
            (["--data", "OWN", "--columns", "sex", "--positive", "1"], "--positive goes with --target"),
            (["--data", "OWN", "--columns", "sex", "--target", "age"], "--target goes with --positive, unless all its"),
            (["--data", "OWN", "--columns", "sex", "--privileged", "M"], "--sensitive and --privileged go together"),
            (
                ["--data", "OWN", "--columns", "sex", "--sensitive", "sex", "--privileged", "M"],
                "--sensitive goes with --target",
            ),
            (
                ["--data", "OWN", "--columns", "sex", "--target", "pay", "--positive", "1"],
                "--target: own <table>.csv has no columns ['pay']",
            ),
            (["--data", "no such file.csv", "--columns", "sex"], "--data: there is no file no such file.csv"),
            (["--data", "OWN", "--columns", "size"], "--columns: own <table>.csv has no columns ['size']"),
            (["--data", "OWN", "--columns", "sex", "--edges", "age=0,1"], "that --columns does not"),
            (["--data", "OWN", "--columns", "age", "--edges", "age=1,0"], "--edges takes COLUMN=EDGE"),
            (
                ["--data", "OWN", "--columns", "age", "--edges", "age=20,21"],
                "bins of numbers (--edges) must hold them all",
            ),
            (["--data", "OWN", "--columns", "sex", "--domain", "no such file.toml"], "no such file.toml"),
        ],
    )
    def test_mistakes_are_explained(self, own, tmp_path, capsys, words, message):
        words = [str(own) if word in ("OWN", "FILE") else word for word in words]
        with pytest.raises(SystemExit) as caught:
            main(["report", "--out", str(tmp_path / "out"), *words])
        assert caught.value.code == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "out").exists()

    def test_edges_and_a_domain_file_may_not_contradict(self, own, tmp_path, capsys):
        path = tmp_path / "domain.toml"
        path.write_text(Domain({"age": Interval(edges=[0, 50, 120])}).to_toml(), encoding="utf-8")
        with pytest.raises(SystemExit):
            self.run("--data", own, "--columns", "age", "--domain", path, "--edges", "age=0,60,120")
        assert "--edges names columns that --domain declares: ['age']" in capsys.readouterr().err

    def test_a_table_with_too_many_cells_is_refused(self, tmp_path, capsys):
        path = tmp_path / "wide.csv"
        pd.DataFrame({"a": range(40), "b": range(40)}).to_csv(path, index=False)
        with pytest.raises(SystemExit):
            main(["report", "--data", str(path), "--columns", "a", "b"])
        assert "1,600 cells together (a: 40, b: 40), too many to show" in capsys.readouterr().err


class TestDraftDomain:
    @pytest.fixture
    def table(self, tmp_path):
        path = tmp_path / "people.csv"
        people = {"age": range(20, 80), "sex": ["f", "m", None] * 20, "name": [f"p{index}" for index in range(60)]}
        pd.DataFrame(people).to_csv(path, index=False)
        return path

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_a_draft_is_written_with_its_warning(self, table, tmp_path, capsys, suffix):
        if suffix == "parquet":
            pd.read_csv(table).to_parquet(table.with_suffix(".parquet"))
        out = tmp_path / "domain.toml"
        words = ["draft-domain", table.with_suffix(f".{suffix}"), out, "--bins", "12", "--max-values", "50"]
        assert main([str(word) for word in words]) == 0
        text = out.read_text(encoding="utf-8")
        assert Domain.from_toml(text) == Domain({"age": Interval(20, 80, bins=12), "sex": ["f", "m", None]})
        shown = capsys.readouterr()
        assert shown.out == f"Wrote {out}\n"
        for phrase in ("edit it from public knowledge", "Column 'name' is left out"):
            assert phrase in text.split("[columns")[0]
            assert phrase in shown.err

    def test_a_file_is_never_overwritten(self, table, tmp_path, capsys):
        out = tmp_path / "domain.toml"
        out.write_text("edited", encoding="utf-8")
        with pytest.raises(SystemExit):
            main(["draft-domain", str(table), str(out)])
        assert "exists already" in capsys.readouterr().err
        assert out.read_text(encoding="utf-8") == "edited"

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["no such file.csv"], "no such file.csv"),
            (["TABLE", "--bins", "0"], "a whole number of at least 1"),
            (["TABLE", "--max-values", "x"], "a whole number of at least 1"),
        ],
    )
    def test_mistakes_are_explained(self, table, tmp_path, capsys, words, message):
        words = [str(table) if word == "TABLE" else word for word in words]
        with pytest.raises(SystemExit) as caught:
            main(["draft-domain", *words[:1], str(tmp_path / "domain.toml"), *words[1:]])
        assert caught.value.code == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "domain.toml").exists()


@each("auc, ends", [(0.36, "It learns nothing from them: 0.5 is chance."), (0.7, "on real rows 0.900.")])
def test_the_summary_says_where_a_model_learns_nothing_from_synthetic_rows(auc, ends):
    name = "AUC, trained on synthetic rows"
    rows = [(1.0, "mean error of 1-way marginals", 0.1), (1.0, name, auc), (np.inf, name, 0.9)]
    curve = pd.DataFrame(rows, columns=["epsilon", "metric", "value"])
    assert _of_synthesis(curve, 1.0, scored=True).endswith(ends)
