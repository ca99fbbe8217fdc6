"""``skdp table``."""

import csv
import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skdp import Domain, Interval, PrivacyLedger
from skdp.privacy import Mu
from tests.cli.commands import call, refuse

DOMAIN = Domain({"region": ["n", "s"], "sex": ["f", "m"], "income": Interval(0.0, 1000.0, bins=4), "employed": [0, 1]})
WEIGHTS = DOMAIN | {"weight": Interval(0.0, 2.5)}
rng = np.random.default_rng(0)
PEOPLE = pd.DataFrame(
    {
        "name": [f"secret {index}" for index in range(400)],
        "region": rng.choice(["n", "s"], 400),
        "sex": rng.choice(["f", "m"], 400),
        "income": rng.uniform(0, 1000, 400).round(2),
        "employed": rng.integers(0, 2, 400),
        "weight": rng.choice([1.0, 2.5], 400),
        "person": np.arange(400) // 2,
    }
)


@pytest.fixture
def files(tmp_path):
    PEOPLE.to_csv(tmp_path / "people.csv", index=False)
    PEOPLE.to_parquet(tmp_path / "people.parquet")
    (tmp_path / "domain.toml").write_text(DOMAIN.to_toml(), encoding="utf-8")
    (tmp_path / "old.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_statistics_of_all_groups_are_written(name, files, capsys):
    out, page = files / f"{name}.out.csv", files / f"{name}.json"
    options = ["--by", "region", "sex", "--columns", "income", "employed", "--statistics", "count", "mean", "0.25"]
    ledger = ["--ledger", files / f"{name}.ledger", "--budget", 1e6]
    words = ["--domain", files / "domain.toml", "--epsilon", 1e5, "--statement", page, "--title", "Incomes", *ledger]
    assert call("table", files / name, out, *words, *options) == 0
    found = pd.read_csv(out).set_index(["region", "sex"])
    groups = PEOPLE.groupby(["region", "sex"])
    assert found["count"].tolist() == groups.size().tolist()
    np.testing.assert_allclose(found["income_mean"], groups["income"].mean(), rtol=1e-3)
    np.testing.assert_allclose(found["employed_mean"], groups["employed"].mean(), rtol=1e-3)
    lower, higher = (groups["income"].quantile(0.25, method) for method in ("lower", "higher"))
    assert (found["income_q25"].between(lower - 0.2, higher + 0.2)).all()
    statement = json.loads(page.read_text())
    assert (statement["title"], statement["total"]["epsilon"]) == ("Incomes", 1e5)
    assert PrivacyLedger(path=files / f"{name}.ledger").spent.epsilon == 1e5
    assert "secret" not in out.read_text() + page.read_text() + capsys.readouterr().out


def test_guess_plans_the_noise_and_the_ledger(files, capsys):
    options = ["--domain", files / "domain.toml", "--by", "sex", "--statistics", "count", "--ledger", files / "ledger"]
    month = Mu.of(guess=0.6).split(2).guess
    for name, budget in (("first.csv", ["--budget-guess", 0.6]), ("second.csv", [])):
        assert call("table", files / "people.csv", files / name, *options, "--guess", month, *budget) == 0
    ledger = PrivacyLedger(path=files / "ledger")
    assert ledger.mu == Mu.of(guess=0.6).mu
    assert ledger.balance().loc["spent", "guess"] == pytest.approx(0.6, abs=1e-9)
    with pytest.raises(SystemExit) as caught:
        call("table", files / "people.csv", files / "third.csv", *options, "--guess", 0.51)
    assert caught.value.code == 3
    both = refuse(capsys, "table", files / "people.csv", files / "third.csv", *options, "--guess", 0.51, "--epsilon", 1)
    assert "--epsilon must not be given with --guess" in both
    wrong = refuse(capsys, "table", files / "people.csv", files / "third.csv", *options, "--guess", 60)
    assert "--guess must be between 0.5 and 1, such as 0.6 for 60 of 100, got 60" in wrong
    options[-2:] = ["--budget-guess", 0.6]
    assert "require --ledger" in refuse(
        capsys, "table", files / "people.csv", files / "x.csv", *options, "--guess", 0.51
    )


def test_numbers_have_as_many_digits_as_their_errors_support(files):
    words = ["--domain", files / "domain.toml", "--epsilon", 1, "--seed", 0]
    options = ["--by", "region", "--columns", "income", "--statistics", "mean", "sum", "median"]
    assert call("table", files / "people.csv", files / "out.csv", *words, *options) == 0
    found = pd.read_csv(files / "out.csv", dtype=str)
    digits = found["income_mean"].str.partition(".")[2].str.len()
    widths = found["income_mean_upper"].astype(float) - found["income_mean_lower"].astype(float)
    assert digits.max() <= 3 - np.floor(np.log10(widths.min()))
    assert found["income_sum"].str.isdecimal().all()


@pytest.mark.filterwarnings("ignore:On average over persons, about 50% of")
def test_weights_and_persons_are_columns(files, capsys):
    (files / "weights.toml").write_text(WEIGHTS.to_toml(), encoding="utf-8")
    known = ["--domain", files / "weights.toml", "--epsilon", 1e5, "--seed", 0]
    options = ["--weight", "weight", "--statistics", "count", "--by", "sex"]
    assert call("table", files / "people.csv", "-", *known, *options) == 0
    shown = capsys.readouterr()
    # The statement names the column of the file.
    assert "values of: sex, weight" in shown.out + shown.err
    unit = "The guarantee is for one row. If a person may have several rows, use --person.\n"
    assert shown.err.startswith(unit)
    counts = [float(line.split(",")[1]) for line in shown.out.splitlines()[1:]]
    assert counts == pytest.approx(PEOPLE.groupby("sex")["weight"].sum().tolist(), abs=0.01)
    persons = ["--person", "person", "--columns", "income", "--statistics", "sum", "count"]
    for n_rows in (2, 1):
        target, limit = files / f"{n_rows}.csv", ["--max-rows-per-person", str(n_rows)]
        assert call("table", files / "people.csv", target, *known, *persons, *limit) == 0
        assert pd.read_csv(target)["count"].tolist() == [200 * n_rows]
    shown = capsys.readouterr()
    assert "all rows of one person" in shown.out
    assert unit not in shown.err


@pytest.mark.filterwarnings("ignore:Columns .* have dtype object")  # text of pandas 2
@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--by", "town"], "must have the columns ['town']"),
        (["--by", "name"], "--by must be columns of the domain file, ['region', 'sex', 'income', 'employed'], got"),
        (["--by", "sex", "--columns", "name", "--statistics", "mean"], "Column 'name' must contain numbers"),
        (["--by", "sex", "--columns", "income", "--statistics", "mode"], "--statistics"),
        (["--by", "sex", "--weight", "weight"], "[columns.weight] with low = 0.0 and high"),
        (["--by", "sex", "--weight", "sex"], "A column must have one use, got 'sex' in --by and --weight"),
        (["--by", "sex", "sex"], "got 'sex' in --by and --by"),
        (["--by", "sex", "--columns", "income", "sex", "--statistics", "mean"], "got 'sex' in --by and --columns"),
        (["--by", "sex", "--columns", "income", "income", "--statistics", "mean"], "in --columns and --columns"),
        (["--by", "sex", "--person", "sex"], "got 'sex' in --by and --person"),
        (["--by", "sex", "--person", "weight", "--weight", "weight"], "got 'weight' in --weight and --person"),
        (
            ["--by", "sex", "--columns", "region", "--statistics", "mean"],
            "the entry in the domain file for column 'region' must be a range of numbers, got listed values. Exclude",
        ),
        (
            ["--by", "sex", "--statistics", "mean", "0.9"],
            "--columns must name the columns of ['mean', '0.9'], got none",
        ),
        (["--statistics", "count", "median"], "--columns must name the columns of ['median'], got none"),
        (["--statistics", "count"], "--by must name the columns of the groups, got none"),
        (["--by", "sex", "--weight", "region"], "--weight of column 'region' must be a range of numbers"),
        (["--by", "sex", "--columns", "income"], "--statistics must contain a statistic of --columns, such as mean"),
        (["--by", "sex", "--statement", "page.txt"], "--statement must end in .html or .json"),
        (["--by", "sex", "--statement", "old.json"], "--statement must be a new file"),
    ],
)
def test_invalid_options_raise_before_charge(words, match, files, capsys):
    ledger = files / "ledger.json"
    if not ledger.exists():
        PrivacyLedger(5.0, path=ledger)
    shown = refuse(
        capsys, "table", "people.csv", "out.csv", "--domain", "domain.toml", "--epsilon", 1, "--ledger", ledger, *words
    )
    assert match in shown, words
    assert "secret" not in shown
    assert not (files / "out.csv").exists()
    assert PrivacyLedger(path=ledger).spent.epsilon == 0


@pytest.mark.parametrize(
    ("declared", "rows", "further"),
    [
        (["None", "mild"], ["None"] * 50, "mild"),
        (["1", "2"], ["1"] * 50, "x"),
        ([1, 2], ["1"] * 50, "x"),
        ([1, 2], ["1"] * 50, "1.0"),
        (["2024-05-01", "2024-05-02"], ["2024-05-01"] * 50, "no day"),
        (Interval(0, 10, bins=2), ["1", "7"] * 25, "x"),
    ],
)
def test_one_row_changes_no_group_of_other_rows(declared, rows, further, tmp_path):
    (tmp_path / "domain.toml").write_text(Domain({"key": declared}).to_toml(), encoding="utf-8")
    options = ["--domain", tmp_path / "domain.toml", "--epsilon", 1e5, "--by", "key", "--handle-unknown", "ignore"]
    counts = []
    for number, lines in enumerate([rows, [*rows, further]]):
        source, target = tmp_path / f"{number}.csv", tmp_path / f"{number}.out.csv"
        source.write_text("\n".join(["key,other", *(f"{line},1" for line in lines)]))
        assert call("table", source, target, *options) == 0
        counts.append(pd.read_csv(target, keep_default_na=False)["count"])
    assert counts[0].sum() == 50
    assert (counts[1] - counts[0]).abs().sum() <= 1


def test_output_is_a_csv_file(files, capsys):
    known = ["--domain", files / "domain.toml", "--epsilon", 1, "--by", "sex"]
    error = refuse(capsys, "table", files / "people.csv", files / "out.xlsx", *known)
    assert "must end in .csv, got 'out.xlsx'" in error


def test_text_in_a_measured_column_raises_before_charge(files, capsys):
    (files / "text.csv").write_text("region,income\nn,5\ns,x\n")
    options = ["--by", "region", "--columns", "income", "--statistics", "mean", "--handle-unknown", "ignore"]
    domain = ["--domain", files / "domain.toml", "--epsilon", 1]
    error = refuse(capsys, "table", files / "text.csv", files / "new.csv", *domain, *options)
    assert "Column 'income' must contain numbers, with decimal points as in 1.5, got other text" in error
    assert "column of text, declare values = [...], or set --delta and declare other = true" in error


@pytest.mark.parametrize("command", ["table", "estimate"])
def test_group_without_a_value_has_a_name(command, tmp_path):
    (tmp_path / "domain.toml").write_text(Domain({"sex": ["NA", "f", None]}).to_toml(), encoding="utf-8")
    pd.DataFrame({"sex": ["NA"] * 100 + ["f"] * 200 + [""] * 300}).to_csv("people.csv", index=False)
    known = ["--domain", "domain.toml", "--epsilon", 30]
    if command == "table":
        assert call("table", "people.csv", "out.csv", *known, "--by", "sex") == 0
    else:
        assert call("privatize", "people.csv", "reports.csv", *known) == 0
        assert call("estimate", "reports.csv", "--out", "out.csv") == 0
    found = pd.read_csv("out.csv", keep_default_na=False, index_col="sex")["count"].round()
    assert found.to_dict() == {"NA": 100, "f": 200, "missing": 300}


def write_groups(command, domain, text, by):
    """Release the groups of rows by a command, and return the written labels."""
    Path("domain.toml").write_text(domain.to_toml(), encoding="utf-8")
    Path("rows.csv").write_text(text, encoding="utf-8")
    known = ["--domain", "domain.toml", "--epsilon", 30]
    if command == "estimate":
        assert call("privatize", "rows.csv", "reports.csv", *known) == 0
        assert call("estimate", "reports.csv", "--out", "out.csv") == 0
        by = by if len(by) == 1 else ["category"]
    else:
        assert call("table", "rows.csv", "out.csv", *known, "--by", *by, *["--totals"][: command == "totals"]) == 0
    found = pd.read_csv("out.csv", dtype=str, keep_default_na=False)
    return [*found[by].itertuples(index=False, name=None)]


@pytest.mark.parametrize("command", ["table", "totals", "estimate"])
def test_integers_beside_missing_values_are_written_as_declared(command, tmp_path):
    """Declared codes 0 and 1 were written as 0.0 and 1.0."""
    columns = {"ward": [0, 1, None], "shift": [5, 6, None]}
    wards, shifts = (["0", "1", "missing", *["total"][: command == "totals"]], ["5", "6", "missing"])
    text = "ward,shift\n" + "0,5\n1,6\n1,\n,\n" * 100
    assert write_groups(command, Domain(columns).select(["ward"]), text, ["ward"]) == [(ward,) for ward in wards]
    for path in Path().iterdir():
        path.unlink()
    both = write_groups(command, Domain(columns), text, ["ward", "shift"])
    if command == "estimate":
        assert both == [(label,) for label in [*wards, *shifts]]
    else:
        assert both == list(itertools.product(wards, [*shifts, *["total"][: command == "totals"]]))


@pytest.mark.parametrize("command", ["table", "estimate"])
def test_value_called_missing_is_another_group_than_missing_values(command, tmp_path):
    found = write_groups(command, Domain({"note": ["missing", "no", None]}), 'note\nno\nmissing\n""\n', ["note"])
    assert found == [("missing",), ("no",), ("(missing)",)]


@pytest.mark.parametrize("text", ["first\rsecond", "first\r\nsecond", "\r", 'a "b", c'])
@pytest.mark.parametrize("command", ["table", "privatize", "synthesize"])
def test_text_with_a_line_break_is_quoted(command, text, tmp_path):
    """A carriage return was written without quotes, so a file had more lines than rows, and `estimate` refused it."""
    pd.DataFrame({"note": [text, "plain"] * 100}).to_parquet("rows.parquet")
    Path("domain.toml").write_text(Domain({"note": [text, "plain"]}).to_toml(), encoding="utf-8")
    words = ["--domain", "domain.toml", "--epsilon", 8, *["--by", "note"][: 2 * (command == "table")]]
    assert call(command, "rows.parquet", "out.csv", *words) == 0
    with open("out.csv", newline="", encoding="utf-8") as file:
        assert {row["note"] for row in csv.DictReader(file)} == {text, "plain"}
    if command == "privatize":
        assert call("estimate", "out.csv") == 0


def test_up_to_ten_whole_numbers_are_keys_without_bins(files):
    (files / "ages.toml").write_text("[columns.employed]\nlow = 0\nhigh = 1\n", encoding="utf-8")
    words = ["--domain", files / "ages.toml", "--epsilon", 30, "--by", "employed"]
    assert call("table", files / "people.csv", files / "out.csv", *words) == 0
    found = pd.read_csv(files / "out.csv", index_col="employed")["count"]
    assert found.to_dict() == PEOPLE["employed"].value_counts().to_dict()


@pytest.mark.usefixtures("files")
def test_statistics_of_all_rows_have_one_line():
    words = ["--columns", "income", "--statistics", "count", "mean", "--epsilon"]
    for name, budget, error in (("found", [50], 0.05), ("declared", [1e5, "--domain", "domain.toml"], 1e-4)):
        assert call("table", "people.csv", f"{name}.csv", *words, *budget) == 0
        found = pd.read_csv(f"{name}.csv")
        assert found["count"].tolist() == pytest.approx([400], abs=1)
        assert found["income_mean"].tolist() == pytest.approx([PEOPLE["income"].mean()], rel=error)


def test_weighted_totals_and_medians_are_in_one_file(files):
    (files / "weights.toml").write_text(WEIGHTS.to_toml(), encoding="utf-8")
    words = ["--domain", files / "weights.toml", "--epsilon", 40, "--weight", "weight", "--by", "region", "sex"]
    options = ["--columns", "income", "--statistics", "count", "sum", "std", "median", "--totals", "quantiles"]
    assert call("table", files / "people.csv", files / "all.csv", *words, *options) == 0
    found = pd.read_csv(files / "all.csv").set_index(["region", "sex"])
    assert len(found) == 9
    for name in ("count", "income_sum"):
        table = found[name].unstack(sort=False)
        np.testing.assert_allclose(table.iloc[:-1].sum(), table.loc["total"], rtol=1e-12)
        np.testing.assert_allclose(table.iloc[:, :-1].sum(axis=1), table["total"], rtol=1e-12)
    weights = PEOPLE.groupby("sex")["weight"].sum()
    assert found.loc["total", "count"].drop("total").tolist() == pytest.approx(weights.tolist(), rel=0.02)
    assert found.loc[("total", "total"), "income_std"] == pytest.approx(PEOPLE["income"].std(), rel=0.1)
    assert found.loc[("total", "total"), "income_median"] == pytest.approx(PEOPLE["income"].median(), abs=50)


def test_printed_table_has_letters_and_no_negative_counts(files):
    (files / "weights.toml").write_text(WEIGHTS.to_toml(), encoding="utf-8")
    words = ["--domain", files / "weights.toml", "--epsilon", 0.02, "--by", "region", "sex", "--totals"]
    words += ["--postprocess", "simplex", "--columns", "income", "--statistics", "count", "sum", "--quality"]
    for name, more in (("letters.csv", []), ("suppressed.csv", ["suppress"])):
        assert call("table", files / "people.csv", files / name, *words, *more) == 0
    letters, suppressed = (pd.read_csv(files / name) for name in ("letters.csv", "suppressed.csv"))
    assert (letters["count"] >= 0).all()
    assert set(letters["income_sum_quality"]) <= set("ABCDEF")
    is_worst = suppressed["count_quality"] == "F"
    assert is_worst.any()
    assert suppressed["count"].isna().tolist() == is_worst.tolist()
    assert ".0" not in (files / "suppressed.csv").read_text()


@pytest.mark.parametrize("names", [["age_lower", "age_upper"], ["age", "age_lower", "age_upper"]])
def test_table_of_age_bands_is_written_with_letters_of_its_estimates(names, files):
    """The file was missing after the charge, or bands had a letter."""
    bands = {"age": [20, 40], "age_lower": [20, 40], "age_upper": [40, 60]}
    rows = pd.DataFrame({name: np.repeat(bands[name], 100) for name in names} | {"income": np.arange(200.0)})
    rows.to_csv(files / "bands.csv", index=False)
    declared = {name: bands[name] for name in names} | {"income": Interval(0.0, 200.0)}
    (files / "bands.toml").write_text(Domain(declared).to_toml(), encoding="utf-8")
    words = ["--domain", files / "bands.toml", "--epsilon", 3, "--ledger", files / "bands.ledger", "--budget", 3]
    words += ["--by", *names, "--columns", "income", "--statistics", "median", "--quality"]
    assert call("table", files / "bands.csv", files / "out.csv", *words) == 0
    found = pd.read_csv(files / "out.csv")
    assert [name for name in found if name.endswith("quality")] == ["income_median_quality"]
    assert set(found["age_upper"]) == {40, 60}


def test_weighted_counts_beside_suppressed_cells_are_whole_numbers(files):
    domain = DOMAIN | {"weight": Interval(0.0, 250.0)}
    (files / "weights.toml").write_text(domain.to_toml(), encoding="utf-8")
    people = PEOPLE[~((PEOPLE["region"] == "n") & (PEOPLE["sex"] == "f"))]
    people.assign(weight=100 * people["weight"]).to_csv(files / "some.csv", index=False)
    words = ["--domain", files / "weights.toml", "--epsilon", 1, "--weight", "weight", "--by", "region", "sex"]
    assert call("table", files / "some.csv", files / "out.csv", *words, "--quality", "suppress", "--seed", 0) == 0
    counts = (
        pd.read_csv(files / "out.csv", dtype=str)
        .set_index(["region", "sex"])
        .drop(columns=["count_quality", "intervals_for"])
    )
    assert counts.loc[("n", "f")].isna().all()
    assert counts.drop(index=[("n", "f")]).stack().str.isdecimal().all()


def test_file_and_statement_name_the_target_of_the_intervals(files, capsys):
    words = [files / "people.csv", files / "table.csv", "--domain", files / "domain.toml", "--by", "sex"]
    words += ["--columns", "income", "employed", "--epsilon", 9, "--seed", 0, "--quality"]
    assert call("table", *words, "--statistics", "mean") == 0
    table = pd.read_csv(files / "table.csv")
    assert table["intervals_for"].tolist() == ["table"] * 2
    words[1] = files / "population.csv"
    words += ["--design-effect", 1.5, "--statement", files / "page.json"]
    error = refuse(capsys, "table", *words, "--statistics", "mean")
    assert "--statistics must contain 'std' for the sampling error of ['income']" in error
    assert not (files / "population.csv").exists()
    assert call("table", *words, "--statistics", "mean", "std", "median", "count") == 0
    population = pd.read_csv(files / "population.csv")
    assert population["intervals_for"].tolist() == ["population"] * 2
    assert (population["income_mean_std_error"] > 5 * table["income_mean_std_error"]).all()
    (method,) = json.loads((files / "page.json").read_text())["method"]
    assert "a sample, with a probability of about 0.95 (design effect 1.5)." in method
    assert "number of this table" not in method
    words[1] = files / "other.csv"
    words[words.index("--design-effect") :] = ["--statistics", "mean", "std", "--design-effect", 0]
    assert call("table", *words) == 0
    assert pd.read_csv(files / "other.csv")["intervals_for"].tolist() == ["table"] * 2
    words[1], words[-1] = files / "invalid.csv", -1
    assert "must be a number >= 0, got -1" in refuse(capsys, "table", *words)


def test_keys_are_found_without_a_domain_file(files, capsys):
    options = ["--by", "region", "--epsilon", 1, "--seed", 0]
    found = ["--keys", "auto", "--delta", 1e-6]
    for name in ("out.csv", "again.csv"):
        assert call("table", files / "people.csv", files / name, *options, *found) == 0
    assert (files / "out.csv").read_text() == (files / "again.csv").read_text()
    table = pd.read_csv(files / "out.csv")
    truth = PEOPLE["region"].value_counts()
    assert (table["count"] - truth[table["region"]].to_numpy()).abs().max() < 15
    assert "delta = 0.000001" in capsys.readouterr().out
    for words, match in (
        ([], "--by must be columns of the domain file, [], got ['region']. Declare their values, or use --keys auto"),
        (["--keys", "auto"], "--delta must be in (0, 1) with --keys auto"),
    ):
        assert match in refuse(capsys, "table", files / "people.csv", files / "x.csv", *options, *words)


def test_found_keys_have_all_statistics(files, capsys):
    """The domain file declares the bounds of columns and weights; its values of keys are not used."""
    options = ["--by", "region", "sex", "--keys", "auto", "--delta", 1e-6, "--epsilon", 1e5, "--seed", 0, "--totals"]
    words = ["--domain", files / "domain.toml", "--columns", "income", "--statistics", "count", "mean", "median"]
    assert call("table", files / "people.csv", files / "out.csv", *options, *words) == 0
    found = pd.read_csv(files / "out.csv", index_col=["region", "sex"])
    groups = PEOPLE.groupby(["region", "sex"])["income"]
    cells = found.loc[groups.mean().index]
    np.testing.assert_allclose(cells["income_mean"], groups.mean(), rtol=0.01)
    np.testing.assert_allclose(cells["count"], groups.size(), rtol=0.01)
    assert found.loc[("total", "total"), "count"] == pytest.approx(len(PEOPLE), rel=0.01)
    assert cells["income_median"].notna().all()


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_ends_that_are_not_declared_are_found_and_stated(name, files, capsys):
    """The largest income of a table is not public, and the command required it."""
    (files / "open.toml").write_text('[columns.sex]\nvalues = ["f", "m"]\n[columns.income]\nlow = 0.0\n')
    out, page = files / "open.csv", files / "open.json"
    options = ["--by", "sex", "--columns", "income", "weight", "--statistics", "mean", "median", "--statement", page]
    words = ["--domain", files / "open.toml", "--epsilon", 50, *options]
    assert call("table", files / name, out, *words) == 0
    found, groups = pd.read_csv(out), PEOPLE.groupby("sex")
    for column in ("income", "weight"):
        np.testing.assert_allclose(found[f"{column}_mean"], groups[column].mean(), rtol=0.05)
    (note,) = json.loads(page.read_text())["method"]
    assert "income from 0 to a limit that is found, weight between limits that are found" in note
    limits = note.split("limits that are found: ")[1].split(". ")[0]
    assert limits.startswith("income from 0 to ")
    assert f"Limits that are found: {limits}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words", "match"),
    [
        ("low = 0\n", ["--by", "income"], "'income' in --by must have several bins"),
        ("low = 0\nhigh = 200\n", ["--by", "income"], "must have several bins, got bounds alone. Set `bins`"),
        ("low = 0\nbins = 4\n", ["--by", "income"], "Column 'income': expected an Interval with both ends"),
        (
            "low = 'a'\n",
            ["--columns", "income", "--statistics", "mean"],
            "must be numbers, dates or datetimes, got str",
        ),
    ],
)
def test_open_ends_in_a_domain_file_are_of_measured_columns(files, capsys, text, words, match):
    (files / "open.toml").write_text(f"[columns.income]\n{text}")
    words = ["--domain", files / "open.toml", "--epsilon", 1, *words]
    assert match in refuse(capsys, "table", files / "people.csv", files / "out.csv", *words)
