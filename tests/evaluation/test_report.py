"""The report: a page without external resources, tables with its numbers, and the command that writes them."""

import base64
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from tests.errors import refusal

pytest.importorskip("matplotlib")

from skdp import Domain, Interval
from skdp.cli import main
from skdp.datasets import load_adult
from skdp.evaluation import study_report
from tests.cli.commands import refuse
from tests.conftest import quick_first


class Page(HTMLParser):
    """The text and the resources that a browser reads."""

    def __init__(self, path):
        super().__init__()
        self.loads, self.open, self.words, self.headings = [], [], [], []
        self.html = path.read_text(encoding="utf-8")
        self.feed(self.html)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)
        names = ("src",) if tag == "a" else ("src", "href")  # a link is loaded only if a reader follows it
        self.loads += [value for name, value in attributes if name in names]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(" ".join(data.split()))
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


SECTIONS = ["Counts", "Accuracy of a model", "Gaps between groups", "What a release reveals", "Files"]


@pytest.fixture(scope="module")
def report(tmp_path_factory, few_trees):
    """1,000 rows and the more informative half of the columns of Adult."""
    adult = load_adult(subset="all", dropna=True)
    less = ["workclass", "race", "capital-loss", "native-country", "marital-status"]
    adult.data, adult.target = adult.data[:1000].drop(columns=less), adult.target[:1000]
    out = tmp_path_factory.mktemp("report") / "deep" / "folder"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skdp.datasets.load_adult", lambda **options: adult)
        assert main(["report", "--out", str(out), "--epsilon", "0.5", "5", "--seed", "0", "--jobs", "1"]) == 0
    return Page(out / "index.html"), {file.stem: pd.read_csv(file) for file in out.glob("*.csv")}


@pytest.mark.long
class TestAdult:
    def test_page_loads_nothing_and_contains_the_numbers_of_its_tables(self, report):
        page, tables = report
        assert not page.open
        assert all(address.startswith("data:image/svg+xml;base64,") for address in page.loads)
        assert page.headings == SECTIONS
        figures = re.findall('alt="(.*?)" src="data:image/svg.xml;base64,(.*?)"', page.html)
        captions = ["counts at epsilon 0.5", "accuracy by epsilon", "differences between groups at epsilon 0.5"]
        assert [caption for caption, _ in figures] == captions
        sizes = {re.search(rb'width="(.*?)" height="(.*?)"', base64.b64decode(image))[0] for _, image in figures}
        assert len(sizes) == 1
        assert all(table.count("<tr>") <= 9 for table in page.html.split("<table>")[1:])
        counts, audits = tables["release_counts"], tables["fairness_audits"]
        assert counts.columns.tolist() == ["epsilon", "age", "sex", "true", "count", "std_error", "lower", "upper"]
        assert counts.groupby("epsilon")["true"].sum().tolist() == [1000, 1000]
        assert sorted(tables["model_scores"]["epsilon"].unique()) == [0.5, 5.0, np.inf]
        assert f"{tables['count_errors']['L2 error, expected'].iloc[0]:,.0f}" in page.text
        parity = audits[audits["metric"].str.contains("parity") & (audits["groups"] == "true groups")]
        assert f"{parity['value'].iloc[0]:.3f}" in page.text
        self.check_findings(page, tables)
        assert "The bound is for guesses from the report alone" in page.text
        assert "<main>" in page.html
        assert "prefers-color-scheme: dark" in page.html

    @staticmethod
    def check_findings(page, tables):
        """Check the three sentences, which have the numbers at epsilon 0.5, the nearest to 1."""
        counts, scores, audits = (
            tables[name].query("epsilon == 0.5") for name in ("release_counts", "model_scores", "fairness_audits")
        )
        margin = ((counts["upper"] - counts["lower"]) / 2).max()
        first, second, third = re.findall('<p class="finding">(.*?)</p>', page.html)
        assert f"of age × sex are within {margin:.0f} of the true counts" in first
        score = scores.query("metric == 'accuracy' and method == 'reported'").iloc[0]
        others = tables["model_scores"].query("metric == 'accuracy' and epsilon == inf").set_index("method")["mean"]
        expected = [f"has an accuracy of {score['mean']:.3f}, which differs by "]
        for other, name in (("without privacy", "without privacy"), ("columns excluded", "without the columns")):
            expected.append(f"{score['mean'] - others[other]:+.3f} from the model {name}")
        assert [text for text in expected if text not in second] == []
        parity = audits[audits["metric"] == "statistical_parity_difference"].set_index("groups")
        values = [f"{parity['value'][name]:.3f}" for name in ("true groups", "reports taken for groups")]
        assert f"of sex is {values[0]} by the true groups; at epsilon 0.5, it is {values[1]} if" in third
        debiased = parity.loc["debiased reports"]
        cell = f"{debiased['value']:.3f} ({debiased['lower']:.3f} to {debiased['upper']:.3f})"
        assert f"{cell} by debiased reports" in third
        assert f"<td>{cell}</td>" in page.html


@pytest.fixture
def people():
    """Shoe size depends on the sex."""
    rng = np.random.default_rng(0)
    sex = rng.choice(["F", "M"], 300)
    pay = rng.random(300) < np.where(sex == "M", 0.7, 0.2)
    shoes = np.where(sex == "M", 43, 38) + rng.integers(-1, 2, 300)
    return pd.DataFrame({"sex": sex, "age": rng.integers(18, 80, 300), "shoes": shoes, "pay": pay})


@pytest.fixture
def domain():
    return Domain({"sex": ["F", "M"], "age": Interval(edges=[0, 40, 80])})


@pytest.mark.usefixtures("no_figures", "few_trees")
class TestStudyReport:
    @staticmethod
    def run(people, domain, out, **options):
        return study_report(people, domain, out, **{"epsilons": [2.0], "random_state": 3} | options)

    def test_report_without_a_target_has_no_scores(self, people, domain, tmp_path):
        page = Page(self.run(people, domain, str(tmp_path)))
        assert page.headings == [SECTIONS[0], *SECTIONS[3:]]
        assert not (tmp_path / "model_scores.csv").exists()
        assert pd.read_csv(tmp_path / "release_counts.csv")["age"].unique().tolist() == ["[0, 40)", "[40, 80]"]

    @pytest.mark.long
    def test_page_has_no_nan_if_a_ratio_is_infinite(self, people, domain, tmp_path):
        options = {"columns": ["sex"], "target": "pay", "sensitive_features": "sex", "privileged": "M"}
        page = Page(self.run(people, domain, tmp_path, epsilons=[0.001], **options))
        audits = pd.read_csv(tmp_path / "fairness_audits.csv")
        assert np.isposinf(audits["upper"]).any()
        assert "nan" not in page.text

    @pytest.mark.long
    def test_seed_repeats_the_report(self, people, domain, tmp_path):
        options = {"target": "pay", "sensitive_features": "sex", "privileged": ["M"]}
        drawn = ["index.html", *(f"{table}.csv" for table in ("release_counts", "count_errors"))]
        drawn.append("fairness_audits.csv")
        files = []
        for name, seed in (("one", 1), ("two", 1), ("three", 2)):
            self.run(people, domain, tmp_path / name, random_state=seed, **options)
            files.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
        assert files[0] == files[1]
        assert not any(files[0][name] == files[2][name] for name in drawn)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"columns": ["shoes"]}, "`columns` must be declared in domain, ['sex', 'age'"),
            ({"target": "sex", "sensitive_features": "age"}, "`target` must not be one of the protected columns"),
            ({"sensitive_features": "sex", "privileged": "M", "target": "shoes"}, "`target` must be 0 or 1, each in"),
            ({"sensitive_features": "sex", "privileged": "X", "target": "pay"}, "Column 'sex' of X must have both"),
            ({"epsilons": [1.0, 1.0]}, "`epsilons` must be distinct"),
            ({"target": "height", "sensitive_features": "sex"}, "`frame` must have the columns ['height'], got"),
            ({"sensitive_features": "sex"}, "`target` and `sensitive_features` must be given together"),
            ({"sensitive_features": "shoes", "privileged": 43, "target": "pay"}, "`sensitive_features` must be a"),
        ],
    )
    def test_invalid_options_raise_before_the_study(self, people, domain, tmp_path, options, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            self.run(people, domain, tmp_path / "out", **options)
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("name", ["target", "sensitive_features"])
    def test_column_in_place_of_its_name_is_an_error(self, people, domain, tmp_path, name):
        options = {"target": "pay", "sensitive_features": "sex", "privileged": "M"}
        for column in (people["sex"], people["sex"].to_list(), people[["sex"]]):
            with pytest.raises(TypeError, match=f"`{name}` must be the name of a column, got [A-Za-z]*.$"):
                self.run(people, domain, tmp_path / "out", **options | {name: column})

    def test_errors_of_targets_and_domains_contain_no_value(self, people, domain, tmp_path):
        people["pay"] = people["pay"].astype(object)
        people.loc[0, "pay"] = None
        with pytest.raises(ValueError, match=r"`target.* has missing values"):
            self.run(people, domain, tmp_path, target="pay", sensitive_features="sex", privileged="M")
        people.loc[0, "age"] = 12345
        with refusal(ValueError, "Column 'age' must have only values in the domain", "12345"):
            self.run(people, domain, tmp_path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_draft_is_written_once_with_its_warning(tmp_path, capsys, suffix):
    people = {"age": [*range(20, 80)] * 2, "sex": ["f", "m", None] * 40, "name": [f"p{i}" for i in range(120)]}
    pd.DataFrame(people).to_csv(tmp_path / "people.csv", index=False)
    pd.DataFrame(people).to_parquet(tmp_path / "people.parquet")
    out = tmp_path / f"domain{suffix}.toml"
    words = ["draft-domain", f"{tmp_path}/people{suffix}", str(out), "--bins", "12", "--max-values", "50"]
    assert main(words) == 0
    text = out.read_text(encoding="utf-8")
    assert Domain.from_toml(text) == Domain({"age": Interval(20, 80, bins=12), "sex": ["f", "m", None]})
    shown = capsys.readouterr()
    assert shown.out == f"Wrote {out}\n"
    for phrase in ("edit it from public knowledge", "Column 'name' is excluded"):
        assert phrase in text.split("[columns")[0]
        assert phrase in shown.err
    for place, message in ((out, "which exists"), ("no/a.toml", "existing directory")):
        assert message in refuse(capsys, *words[:2], tmp_path / place)


@pytest.mark.parametrize(
    ("values", "label"),
    quick_first(1, [([7, 8, None], "missing"), ([10001, 10002], "10002"), ([2021.5, 2022.0], "2022")]),
)
def test_page_names_groups_without_rows_by_declared_values(values, label, tmp_path_factory, no_figures):
    """Codes were formatted as amounts (10,001 and 7.00), and a missing value had no label."""
    column = pd.Series([values[row % (len(values) - 1)] for row in range(300)], dtype=object)
    frame = pd.DataFrame({"code": column, "sex": ["f", "m"] * 150})
    domain = Domain({"code": values, "sex": ["f", "m"]})
    out = tmp_path_factory.mktemp("page")
    html = study_report(frame, domain, out, columns=["code"], epsilons=[1.0]).read_text(encoding="utf-8")
    assert f"Cells without rows: {label}." in html


@pytest.mark.parametrize("n_missing", quick_first(1, [40, 0]))
def test_page_mentions_rows_without_a_group(n_missing, tmp_path, few_trees, no_figures):
    """Rows without a group are unprivileged, which the page did not mention."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], 300), "age": rng.integers(18, 80, 300)}).astype({"sex": object})
    frame["hired"] = rng.random(300) < 0.4
    frame.loc[: n_missing - 1, "sex"] = None
    domain = Domain({"sex": ["f", "m", None], "age": Interval(18, 80, bins=4)})
    roles = {"columns": ["sex"], "target": "hired", "sensitive_features": "sex", "privileged": "m"}
    page = study_report(frame, domain, tmp_path / "page", epsilons=[1.0], random_state=0, **roles)
    html = page.read_text(encoding="utf-8")
    assert ("The 40 rows without a group are unprivileged." in html) == (n_missing > 0)
