"""The display of quality: its figures are those of the tables, or of what a synthesizer has released."""

import io
import itertools
import math
import re
from datetime import date

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib")

from matplotlib import pyplot as plt

from skdp import DPMarginalSynthesizer, Interval
from skdp.evaluation import TableQualityDisplay
from skdp.metrics import compare_marginals, compare_numbers, value_errors
from skdp.synthesis import marginal_quality, number_quality
from tests.conftest import each, few_kinds

REAL = {"sex": ["F", "F", "F", "M", "M", "M"], "age": [20, 20, 30, 40, 50, 30], "smokes": [0, 1, 0, 1, 1, 1]}
SYNTHETIC = {"sex": ["F", "M", "M", "X"], "age": [20, 20, 40, 40], "smokes": [0, 0, 1, 1]}
DOMAIN = {"sex": ["F", "M", "X"], "age": Interval(edges=[20, 35, 50]), "smokes": [0, 1]}


def shares(table, names, values):
    rows = list(zip(*(table[name] for name in names), strict=True))
    return np.array([rows.count(cell) / len(rows) for cell in itertools.product(*values)])


@few_kinds
def test_figures_of_two_tables_are_counted_and_of_their_kind(make_frame):
    real, synthetic = make_frame(REAL), make_frame(SYNTHETIC)
    display = TableQualityDisplay.from_tables(real, synthetic, domain=DOMAIN)
    assert type(display.marginals) is type(real)
    assert type(display.numbers) is type(real)
    assert type(display.unsupported) is type(real)
    # The second bin is closed.
    binned = [{**table, "age": [age >= 35 for age in table["age"]]} for table in (REAL, SYNTHETIC)]
    cells = {"sex": DOMAIN["sex"], "age": [False, True], "smokes": [0, 1]}
    names = [("sex",), ("age",), ("smokes",), *itertools.combinations(cells, 2)]
    rows = table_of(display.marginals)
    assert [row["column"] for row in rows] == [columns[0] for columns in names]
    assert [row["second_column"] for row in rows[3:]] == [columns[1] for columns in names[3:]]
    for row, columns in zip(rows, names, strict=True):
        values = [cells[name] for name in columns]
        one, other = (shares(table, columns, values) for table in binned)
        wrong = (abs(one - other) >= one) & (one != other)
        assert row["n_cells"] == len(one)
        assert row["error"] == pytest.approx(abs(one - other).sum() / 2)
        assert row["n_uncertain"] == wrong.sum()
        assert row["uncertain"] == pytest.approx(other[wrong].sum())
        assert row["supported"] == (max(other[wrong].sum(), row["noise"], row["error"]) <= 0.5)


def table_of(frame):
    """Read a table of any library as a list of rows."""
    names = frame.column_names if hasattr(frame, "column_names") else list(frame.columns)
    columns = [list(frame[name].to_pylist() if hasattr(frame[name], "to_pylist") else frame[name]) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def test_means_and_quantiles_are_those_of_the_values():
    display = TableQualityDisplay.from_tables(pd.DataFrame(REAL), pd.DataFrame(SYNTHETIC), domain=DOMAIN)
    numbers = display.numbers.set_index("statistic")
    means = value_errors(pd.DataFrame(REAL), pd.DataFrame(SYNTHETIC), domain=DOMAIN).loc[0]
    assert numbers.loc["mean", ["reference", "synthetic"]].to_list() == [means["real"], means["synthetic"]]
    assert numbers.loc["quantile 0.5", ["reference", "synthetic"]].to_list() == [30, 20]
    assert numbers.loc["quantile 0.9", ["reference", "synthetic"]].to_list() == [50, 40]
    reach = 1.959964 * np.std(REAL["age"]) * math.sqrt(1 / 6 + 1 / 4)
    assert numbers.loc["mean", "upper"] == pytest.approx(means["real"] + reach)
    assert numbers.loc["quantile 0.5", ["lower", "upper"]].to_list() == [20, 50]


def test_columns_that_are_off_by_more_than_half_are_not_supported():
    # A value that has nearly twice its share has a true digit; most rows are wrong all the same.
    real = pd.DataFrame({"x": ["a"] * 40 + ["b"] * 60})
    synthetic = pd.DataFrame({"x": ["a"] * 79 + ["c"] * 21})
    display = TableQualityDisplay.from_tables(real, synthetic)
    assert display.marginals["error"].to_list() == [0.6]
    assert display.marginals["uncertain"].to_list() == [0.21]
    assert not display.marginals["supported"].any()
    assert "columns off by more than half of the rows: x" in display.notes


def test_chance_is_about_the_distance_of_two_samples_of_a_law():
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.ones(20))
    errors = []
    for _ in range(100):
        one, other = (pd.DataFrame({"x": rng.choice(20, n, p=law)}) for n in (400, 200))
        figures = compare_marginals(one, other, domain={"x": list(range(20))})
        errors.append(figures.loc[0, ["error", "noise"]].to_list())
    found, noise = np.mean(errors, axis=0)
    std_error = np.std(errors, axis=0)[0] / 10
    # Six standard errors, and what a normal number is not.
    assert abs(noise - found) < 6 * std_error + 0.02 * found


def fit(frame, **options):
    return DPMarginalSynthesizer(random_state=0, **options).fit(frame)


def people(n=2_000):
    rng = np.random.default_rng(1)
    age = rng.integers(20, 50, n)
    frame = pd.DataFrame({"age": age, "job": np.where(rng.random(n) < age / 60, "yes", "no")})
    return frame.assign(sex=rng.choice(["F", "M"], n))


PEOPLE = {"age": Interval(20, 50, bins=6), "job": ["yes", "no"], "sex": ["F", "M", "X"]}


def fewest_rows(synthesizer):
    """Return the lower end of a one-sided interval of 95 %."""
    return max(1.0, synthesizer.n_rows_ - 1.6448536 * synthesizer.n_rows_std_error_)


def test_noise_is_compared_with_the_fewest_rows_that_there_may_be():
    domain = {"job": list("abcde")}
    n_supported = 0
    n_off = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        jobs = rng.choice(5, 40, p=[0.9, 0.04, 0.03, 0.02, 0.01])
        frame = pd.DataFrame({"job": np.array(domain["job"])[jobs]})
        synthesizer = DPMarginalSynthesizer(0.1, domain=domain, random_state=seed).fit(frame)
        (row,) = table_of(marginal_quality(synthesizer))
        by_model = synthesizer.marginal(["job"])["count"].to_numpy() / synthesizer.n_rows_
        if abs(by_model - np.bincount(jobs, minlength=5) / 40).sum() / 2 > 0.5:
            n_off += 1
            n_supported += row["supported"]
    # A quarter were, where noise was divided by the estimated number of rows.
    assert n_off >= 10
    assert n_supported == 0


def test_a_pair_of_few_rows_that_the_model_contradicts_is_not_supported():
    # Nearly half of the rows have what structural zeros exclude.
    for seed in range(20):
        rng = np.random.default_rng(seed)
        a = np.arange(30) % 2
        table = pd.DataFrame({"a": a, "b": np.where(rng.random(30) < 0.9, a, 1 - a)})
        synthesizer = DPMarginalSynthesizer(
            0.5,
            domain={"a": [0, 1], "b": [0, 1]},
            marginals=[("a", "b")],
            structural_zeros=[{"a": 0, "b": 0}],
            random_state=seed,
        ).fit(table)
        pair = TableQualityDisplay.from_estimator(synthesizer).marginals.iloc[-1]
        fewest = max(1.0, synthesizer.n_rows_ - 1.645 * synthesizer.n_rows_std_error_)
        is_explained = pair["error"] <= 2 * pair["noise"] * fewest / synthesizer.n_rows_
        assert is_explained or not pair["supported"]


def test_figures_of_a_model_are_those_of_what_was_released():
    synthesizer = fit(people(), domain=PEOPLE, marginals="full")
    display = TableQualityDisplay.from_estimator(synthesizer)
    (marginal,) = {one.clique: one for one in synthesizer.marginals_ if len(one.clique) == 3}.values()
    assert [one.clique for one in synthesizer.marginals_] == [(0, 1, 2)]
    n = synthesizer.n_rows_
    for _, row in display.marginals.iterrows():
        columns = [row["column"], *[name for name in [row["second_column"]] if isinstance(name, str)]]
        axes = tuple(place for place, name in enumerate(PEOPLE) if name not in columns)
        counts = marginal.counts.sum(axis=axes)
        std_error = marginal.std_error * math.sqrt(marginal.counts.size / counts.size)
        model = synthesizer.marginal(columns)["count"].to_numpy().reshape(counts.shape)
        assert row["error"] == pytest.approx(abs(counts - model).sum() / (2 * n))
        noise = math.sqrt(2 / math.pi) * std_error * counts.size / (2 * fewest_rows(synthesizer))
        assert row["noise"] == pytest.approx(noise)
        assert row["n_uncertain"] == (model <= std_error).sum()
        assert row["uncertain"] == pytest.approx(model[model <= std_error].sum() / n)
        assert row["measured"]
        assert row["supported"]


def test_values_that_were_counted_together_are_as_uncertain_as_their_group():
    rng = np.random.default_rng(3)
    first = rng.choice(6, 3_000, p=[0.3, 0.04, 0.3, 0.02, 0.24, 0.1])
    frame = pd.DataFrame({"a": first, "b": (first + rng.choice(2, 3_000)) % 6, "c": rng.choice(3, 3_000)})
    domain = {"a": Interval(0, 6, bins=6), "b": Interval(0, 6, bins=6), "c": range(3)}
    synthesizer = fit(frame, domain=domain, epsilon=0.5, delta=1e-6)
    (marginal,) = (one for one in synthesizer.marginals_ if one.clique == (0, 1))
    figures = TableQualityDisplay.from_estimator(synthesizer).marginals
    row = figures[(figures["column"] == "a") & (figures["second_column"] == "b")].iloc[0]
    model = synthesizer.n_rows_ * synthesizer.model_.marginal([0, 1])
    groups = [np.arange(6) if members is None else members for members in marginal.groups]
    sums = np.zeros(marginal.counts.shape)
    np.add.at(sums, np.ix_(*groups), model)
    of_others = sums[np.ix_(*groups)] - model
    uncertain = model <= marginal.std_error + of_others
    # Some have more records than the noise, and fewer than what they were counted with.
    assert uncertain.sum() > (model <= marginal.std_error).sum()
    assert row["n_uncertain"] == uncertain.sum()
    assert row["uncertain"] == pytest.approx(model[uncertain].sum() / synthesizer.n_rows_)
    assert row["error"] == pytest.approx(abs(marginal.counts - sums).sum() / (2 * synthesizer.n_rows_))


def test_a_pair_that_was_not_measured_is_named_with_the_dependence_that_the_model_lacks():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 40, 20_000)
    columns = {"a": first, "b": (first + rng.integers(0, 20, 20_000)) % 40}
    columns["c"] = (columns["b"] + rng.integers(0, 20, 20_000)) % 40
    domain = dict.fromkeys(columns, range(40))
    synthesizer = fit(pd.DataFrame(columns), domain=domain, epsilon=2.0, delta=1e-6, max_cells=1_700)
    display = TableQualityDisplay.from_estimator(synthesizer)
    scores = synthesizer.pair_scores_
    unmeasured = scores.index[~scores["measured"]].to_list()
    assert unmeasured == [("a", "c")]
    row = display.marginals.set_index(["column", "second_column"]).loc[("a", "c")]
    shares = synthesizer.model_.marginal([0, 2])
    product = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    dependence = abs(shares - product).sum() / 2
    score = scores.loc[("a", "c"), "score"] / (2 * synthesizer.n_rows_)
    assert row["error"] == pytest.approx(abs(score - dependence))
    assert not row["measured"]
    assert not row["supported"]
    assert display.unsupported[["column", "second_column"]].to_numpy().tolist() == [["a", "c"]]
    assert "1 of 3 pairs, which were not measured and rely on conditional independence" in display.notes[-1]
    below = [axes.get_xlabel().replace("\n", " ") for axes in display.axes_]
    assert "Not to be used: 1 of 3 pairs, which were not measured" in below[1]


def test_a_measured_pair_that_the_model_contradicts_is_marked_and_named():
    # What is declared impossible occurs: noisy counts say so, and the model cannot.
    domain = {**PEOPLE, "sex": ["F", "M"]}
    options = {"domain": domain, "marginals": [("job", "sex"), ("age", "sex")]}
    free, fixed = fit(people(), **options), fit(people(), **options, structural_zeros=[{"job": "yes", "sex": "F"}])
    assert not any("worse" in note for note in TableQualityDisplay.from_estimator(free).notes)
    display = TableQualityDisplay.from_estimator(fixed)
    row = display.marginals.set_index(["column", "second_column"]).loc[("job", "sex")]
    assert row["measured"]
    assert row["error"] > 2 * row["noise"]
    assert not row["supported"]
    assert ["job", "sex"] in display.unsupported[["column", "second_column"]].to_numpy().tolist()
    assert display.notes[-1].startswith("fitted worse than the noise: job × sex")
    assert "Not to be used: fitted worse than the noise: job × sex" in display.axes_[1].get_xlabel()
    # Its mark is hollow.
    assert row["error"] in display.axes_[1].lines[1].get_xdata()


@each("conditions text", [([], ""), (["age"], " given 'age'")])
def test_the_pair_that_fair_changes_in_rows_is_named(conditions, text):
    domain = {**PEOPLE, "sex": ["F", "M"]}
    display = TableQualityDisplay.from_estimator(fit(people(), domain=domain, fair=("sex", "job", conditions)))
    (note,) = (note for note in display.notes if "by choice" in note)
    assert note.startswith("sex × job in rows, changed by choice: label 'job' redrawn in rows, independent of 'sex'")
    assert note.endswith(f"'sex'{text}, which moves its other pairs too; figures are of the model before")
    assert f"Not to be used: {note}" in display.axes_[1].get_xlabel().replace("\n", " ")
    assert not any(
        "by choice" in note for note in TableQualityDisplay.from_estimator(fit(people(), domain=domain)).notes
    )


def test_the_pair_that_fair_changed_in_a_table_is_named():
    frame = people()
    display = TableQualityDisplay.from_tables(frame, frame, domain=PEOPLE, fair=("sex", "job", ["age"]))
    text = "label 'job' redrawn in rows, independent of 'sex' given 'age', which moves its other pairs too"
    assert f"sex × job in rows, changed by choice: {text}" in display.notes
    assert f"Not to be used: sex × job in rows, changed by choice: {text}" in display.axes_[1].get_xlabel().replace(
        "\n", " "
    )
    assert not any("choice" in note for note in TableQualityDisplay.from_tables(frame, frame, domain=PEOPLE).notes)
    with pytest.raises(ValueError, match=r"fair must name columns of the tables, got \['wage'\]; they have \['age'"):
        TableQualityDisplay.from_tables(frame, frame, fair=("wage", "job"))
    with pytest.raises(TypeError, match=r"fair must be \(group, label\) or \(group, label, conditions\), got str"):
        TableQualityDisplay.from_tables(frame, frame, fair="sex")


@pytest.mark.filterwarnings("ignore:about .* of the rows that the model draws")
def test_columns_that_follow_from_others_are_not_compared_and_are_named():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"wage": rng.integers(0, 90, 2_000), "net rent": rng.integers(0, 9, 2_000)})
    frame = frame.assign(income=frame["wage"] + frame["net rent"], sex=rng.choice(["F", "M"], 2_000))
    bins = Interval(0, 100, bins=10)
    domain = {"wage": bins, "net rent": Interval(0, 10, bins=10), "income": bins, "sex": ["F", "M"]}
    for relation, words in (
        ("income = wage + `net rent`", "wage + `net rent`"),
        ("wage + `net rent` == income", "wage + `net rent`"),
        ("income - wage = `net rent`", "income - wage"),
    ):
        display = TableQualityDisplay.from_estimator(fit(frame, domain=domain, relations=[relation]))
        (derived,) = {*domain} - {*display.marginals["column"]}
        assert derived not in {*display.marginals["second_column"], *display.numbers["column"]}
        assert len(display.marginals) == 3 + 3
        assert f"{derived} follows from {words}" in display.notes
        assert f"\n{derived} follows from {words}" in display.axes_[0].get_xlabel()
        plt.close("all")


def test_without_measured_pairs_and_scores_nothing_is_said_of_pairs_but_that():
    display = TableQualityDisplay.from_estimator(fit(people(), domain=PEOPLE, marginals="independent"))
    pairs = display.marginals[display.marginals["second_column"].notna()]
    assert pairs["error"].isna().all()
    assert not pairs["measured"].any()
    assert len(display.unsupported) == 3
    assert "3 of 3 pairs, which were not measured and rely on conditional independence" in display.notes
    assert len(display.axes_) == 2
    # No panel has pairs: it is said below the last one.
    assert "Not to be used: 3 of 3 pairs" in display.axes_[1].get_xlabel()


def test_what_is_noise_is_not_supported_and_every_column_is_named():
    rng = np.random.default_rng(0)
    names = [f"a column of noise number {number}" for number in range(6)]
    frame = pd.DataFrame({name: rng.integers(0, 3, 400) for name in names})
    domain = dict.fromkeys(names, range(10))
    for epsilon, supported in ((0.1, False), (5.0, True)):
        synthesizer = fit(frame, domain=domain, epsilon=epsilon, delta=1e-6, marginals="independent")
        display = TableQualityDisplay.from_estimator(synthesizer)
        table = display.marginals[display.marginals["second_column"].isna()]
        std_error = math.sqrt(sum(one.std_error**2 for one in synthesizer.marginals_) / 6)
        noise = 10 * math.sqrt(2 / math.pi) * std_error / (2 * fewest_rows(synthesizer))
        assert (noise > 0.5) == (not supported)
        assert table["noise"].to_numpy() == pytest.approx(min(1.0, noise))
        assert display.marginals[["error", "noise"]].max(axis=None) <= 1
        assert (table["supported"] == supported).all()
        notes = [note for note in display.notes if note.startswith("columns of which noise alone moves")]
        assert len(notes) == (not supported)
        for note in notes:
            assert all(name in note for name in names)
            text = display.axes_[0].get_xlabel().replace("\n", " ")
            assert re.search(r"a colum…umber \d and 3 more", text)


def test_long_names_are_cut_such_that_labels_differ():
    """Of questions of a survey the start is the same, or both ends are."""
    names = ["short", "question of a survey, number 1", "question of a survey, number 12"]
    names += ["question asked twice, number 1", 7, "7"]
    frame = pd.DataFrame({name: [0, 1] * 20 for name in names})
    labels = ["short", "questio…umber 1", "questio…mber 12", "questio…umber 1 #4", "7", "7 #6"]
    display = TableQualityDisplay.from_tables(frame, frame, max_pairs=15)
    columns, pairs, numbers = display.axes_
    assert [label.get_text() for label in columns.get_yticklabels()] == labels
    assert {label.get_text() for label in numbers.get_yticklabels()} == set(labels)
    of_pairs = {label.get_text() for label in pairs.get_yticklabels()}
    assert of_pairs == {" × ".join(pair) for pair in itertools.combinations(labels, 2)}


def test_columns_without_a_count_are_named():
    display = TableQualityDisplay.from_estimator(fit(people(), domain=PEOPLE, marginals=[("age",)]))
    assert display.notes[0] == "columns that were not measured: job, sex"


def test_numbers_of_a_model_are_those_of_its_bins_and_of_the_noisy_counts():
    # Bins of single numbers: nothing is to be known within them.
    domain = {"age": Interval(20, 50, bins=30), "job": ["yes", "no"]}
    synthesizer = fit(people()[["age", "job"]], domain=domain, marginals="independent", epsilon=0.08)
    numbers = TableQualityDisplay.from_estimator(synthesizer).numbers.set_index("statistic")
    (marginal,) = (one for one in synthesizer.marginals_ if one.clique == (0,))
    model = synthesizer.model_.marginal([0])
    ages = np.arange(20, 50)
    # The last bin is closed: it has the ages 49 and 50.
    means = np.append(ages[:-1], 49.5)
    counts = marginal.counts
    mean = counts @ means / counts.sum()
    assert numbers.loc["mean", "reference"] == pytest.approx(mean)
    assert numbers.loc["mean", "synthetic"] == pytest.approx(model @ means)
    reach = 1.959964 * marginal.std_error * math.sqrt(((means - mean) ** 2).sum()) / counts.sum()
    assert numbers.loc["mean", "upper"] == pytest.approx(mean + reach)
    squares = (means - mean) ** 2
    squares[-1] += 1 / 12  # as if 49 and 50 were the ends of an interval
    variance = counts @ squares / counts.sum()
    reach = 1.959964 * marginal.std_error * math.sqrt(((squares - variance) ** 2).sum()) / counts.sum()
    figures = numbers.loc["deviation", ["reference", "lower", "upper"]].to_numpy(float)
    assert figures**2 == pytest.approx([variance, max(0, variance - reach), min(15**2, variance + reach)])
    for share in (0.1, 0.5, 0.9):
        for side, of in (("reference", counts / counts.sum()), ("synthetic", model)):
            expected = ages[np.searchsorted(np.maximum.accumulate(of.cumsum())[:-1], share)]
            assert numbers.loc[f"quantile {share:g}", side] == expected
        # An age is possible unless the counts of younger ones, or these with its own, say
        # clearly that the quantile is lower or higher.
        possible = []
        for place, age in enumerate(ages):
            clear = []
            for n_below in (place, place + 1):
                variance = n_below * (1 - share) ** 2 + (30 - n_below) * share**2
                excess = counts[:n_below].sum() - share * counts.sum()
                clear.append(excess / (marginal.std_error * math.sqrt(variance)))
            if clear[0] <= 1.959964 and clear[1] >= -1.959964:
                possible.append(age)
        row = numbers.loc[f"quantile {share:g}"]
        # The last bin has the ages 49 and 50.
        last = 50 if possible[-1] == 49 else possible[-1]
        assert (row["lower"], row["upper"]) == (min(possible[0], row["reference"]), max(last, row["reference"]))
    assert numbers["measured_within"].all()


WIDE = {"paid": Interval(0, 10_000, bins=50, decimals=2)}


def test_numbers_of_any_size_have_the_same_figures_in_their_unit():
    cost = np.random.default_rng(0).lognormal(0, 1, 500).clip(0, 99)
    tables = []
    # Of such sizes, no decimals of the numbers decide where they are counted.
    for unit in (2.0**300, 2.0**540, 2.0**1010, 2.0**-900):
        domain = {"cost": Interval(edges=[*(unit * np.linspace(0, 128, 9))], real=True)}
        frame = pd.DataFrame({"cost": cost * unit})
        table = TableQualityDisplay.from_estimator(fit(frame, domain=domain)).numbers
        numbers = table[["reference", "synthetic", "lower", "upper", "scale"]] / unit
        tables.append(numbers.assign(known=table["known"]))
    for table in tables[1:]:
        pd.testing.assert_frame_equal(table, tables[0])


def test_intervals_of_quantiles_hold_the_true_ones_also_within_bins():
    inside = []
    for seed in range(6):
        # All quantiles are in the first of the bins.
        paid = np.round(np.random.default_rng(seed).gamma(2, 30, 20_000), 2)
        synthesizer = DPMarginalSynthesizer(delta=1e-6, domain=WIDE, random_state=seed)
        numbers = number_quality(synthesizer.fit(pd.DataFrame({"paid": paid}))).set_index("statistic")
        for share in (0.1, 0.5, 0.9):
            row = numbers.loc[f"quantile {share}"]
            inside.append(row["lower"] <= np.quantile(paid, share, method="inverted_cdf") <= row["upper"])
            # They say something: less than a sixth of a standard deviation, in 20,000 rows.
            assert row["upper"] - row["lower"] < np.std(paid) / 3
            assert row["known"]
    # Of 18, one may be outside; without the noise within bins, eight were.
    assert sum(inside) >= 17


def test_noise_in_a_long_interval_is_no_unit_and_moves_no_mean_beyond_the_ends():
    frame = pd.DataFrame({"paid": np.round(np.random.default_rng(0).lognormal(3, 1, 3_000), 2)})
    low, middle, high = frame["paid"].quantile([0.1, 0.5, 0.9])
    for seed in range(3):
        synthesizer = DPMarginalSynthesizer(0.3, delta=1e-6, domain=WIDE, random_state=seed).fit(frame)
        numbers = number_quality(synthesizer).set_index("statistic")
        figures = numbers[["reference", "synthetic", "lower", "upper"]].to_numpy()
        assert figures.min() >= 0
        assert figures.max() <= 10_000
        assert numbers["scale"].to_numpy() == pytest.approx((high - low) / 2.563103, rel=0.3)
        # Counts do not tell what a few records far away are.
        assert not numbers.loc[["mean", "deviation"], "known"].any()
        assert numbers.loc["quantile 0.5", "known"]
        assert numbers.loc["quantile 0.5", "reference"] == pytest.approx(middle, rel=0.2)
    display = TableQualityDisplay.from_estimator(synthesizer)
    (note,) = (note for note in display.notes if "fitted tail" in note)
    assert note.startswith("not told by noisy counts, but by a fitted tail or the model alone: mean + deviation")
    # They are not drawn.
    assert sum(line.get_xdata().size for line in display.axes_[1].lines[:-1]) == numbers["known"].sum()


def test_intervals_of_deviations_are_those_of_two_samples():
    rng = np.random.default_rng(1)
    inside = []
    for draw in (rng.normal, rng.exponential, lambda size: rng.integers(0, 2, size)):
        for _ in range(40):
            real, synthetic = (pd.DataFrame({"x": draw(size=n)}) for n in (300, 200))
            row = compare_numbers(real, synthetic).set_index("statistic").loc["deviation"]
            assert row["reference"] == real["x"].std(ddof=0)
            inside.append(row["lower"] <= row["synthetic"] <= row["upper"])
    # Three standard errors below 95 %.
    assert np.mean(inside) > 0.9


def test_numbers_that_chance_does_not_explain_are_named_and_hollow():
    paid = np.round(np.random.default_rng(0).lognormal(3, 1, 5_000), 2)
    real = pd.DataFrame({"paid": paid, "age": np.arange(5_000) % 70})
    domain = {"paid": Interval(0, 1e6, bins=10, decimals=2), "age": Interval(0, 70, bins=7)}
    display = TableQualityDisplay.from_tables(real, real.assign(paid=0.7 * paid), domain=domain)
    assert display.notes == ["off by more than twice what chance alone makes: all of paid"]
    assert f"Not to be used: {display.notes[0]}" in display.axes_[-1].get_xlabel().replace("\n", " ")
    hollow = [line.get_xdata().size for line in display.axes_[-1].lines if line.get_mfc() == "white"]
    assert hollow == [1] * 5
    # Two halves of the same rows are not off.
    assert not TableQualityDisplay.from_tables(real[::2], real[1::2], domain=domain).notes


@each("bins", ["declared", "private"])
def test_deviations_count_what_is_within_bins(bins):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"x": rng.normal(500, 100, 4_000).clip(0, 1_000), "sex": rng.choice(["F", "M"], 4_000)})
    # A single bin: all that differs is within it.
    domain = {"x": Interval(edges=[0.0, 1_000.0], real=True), "sex": ["F", "M"]}
    display = TableQualityDisplay.from_estimator(fit(frame, domain=domain, bins=bins, epsilon=20.0))
    assert display.numbers["scale"].to_numpy() == pytest.approx(100, rel=0.1)
    deviation = display.numbers.set_index("statistic").loc["deviation"]
    assert deviation["synthetic"] == pytest.approx(100, rel=0.1)
    assert deviation["lower"] <= frame["x"].std() <= deviation["upper"]


def test_a_column_of_one_number_in_private_bins_is_not_drawn():
    frame = people().assign(age=0.0)
    domain = PEOPLE | {"age": Interval(0, 100, bins=4, real=True)}
    display = TableQualityDisplay.from_estimator(fit(frame, domain=domain, bins="private", epsilon=20.0))
    assert (display.numbers["scale"] == 0).all()
    assert len(display.axes_) == 2


def test_numbers_that_differ_by_rounding_alone_are_not_drawn():
    frame = pd.DataFrame({"x": [0.3] * 10, "y": [1, 2] * 5})
    assert frame["x"].to_numpy().std() > 0
    display = TableQualityDisplay.from_tables(
        frame, frame.assign(x=0.2), domain={"x": Interval(0, 1, bins=2), "y": [1, 2]}
    )
    assert (display.numbers["scale"] == 0).all()
    assert len(display.axes_) == 2


@each("bins", ["declared", "private"])
def test_intervals_of_bins_that_were_found_hold_the_true_figures(bins):
    inside = []
    for seed in range(4):
        paid = np.random.default_rng(seed).exponential(20, 5_000).clip(0, 60)
        frame = pd.DataFrame({"paid": paid})
        synthesizer = DPMarginalSynthesizer(
            delta=1e-6, domain={"paid": Interval(0, 60, bins=6, real=True)}, bins=bins, random_state=seed
        ).fit(frame)
        numbers = number_quality(synthesizer).set_index("statistic")
        quantiles = np.quantile(paid, [0.1, 0.5, 0.9], method="inverted_cdf")
        true = np.array([paid.mean(), paid.std(), *quantiles])
        inside += [*(numbers["lower"] <= true) & (true <= numbers["upper"])]
        assert numbers["known"].all()
    # Of 20 figures of 95 %; intervals that left the noise of bins out held 10 to 43 %.
    assert sum(inside) >= 18


def test_dates_are_days_and_where_nothing_was_measured_within_bins_is_named():
    days = pd.date_range("2020-01-01", periods=1_000).date
    domain = {"day": Interval(edges=[date(2020, 1, 1), date(2022, 1, 1), date(2024, 1, 1)])}
    synthesizer = fit(pd.DataFrame({"day": days}), domain=domain, epsilon=20.0)
    display = TableQualityDisplay.from_estimator(synthesizer)
    numbers = display.numbers.set_index("statistic")
    # The true median is the day 2021-05-15, 18,762 days after 1970. Of 24 seeds, medians
    # are 2 days later on average, with a standard deviation of 2.
    assert numbers.loc["quantile 0.5", "synthetic"] == pytest.approx(18_762, abs=20)
    even = display.numbers.assign(measured_within=False)
    words = TableQualityDisplay(display.marginals, even).notes
    assert words[-1] == "where numbers lie within bins, spread evenly: day"


@pytest.mark.long
@few_kinds
def test_dates_are_given_as_dates(make_frame):
    days = [date(2020, 1, 1), date(2020, 1, 1), date(2021, 6, 15), date(2023, 12, 31)] * 200
    rows = {"day": days, "n": [1, 2, 3, 4] * 200}
    domain = {"day": Interval(date(2020, 1, 1), date(2024, 1, 1), bins=4), "n": Interval(0, 5, bins=5)}
    of_tables = TableQualityDisplay.from_tables(make_frame(rows), make_frame(rows), domain=domain)
    of_model = TableQualityDisplay.from_estimator(fit(make_frame(rows), domain=domain, epsilon=20.0))
    for display in (of_tables, of_model):
        numbers = table_of(display.numbers)
        for row in numbers:
            for name in ("reference", "synthetic", "lower", "upper"):
                given = row[f"{name}_date"]
                # A deviation is a number of days.
                if row["column"] == "n" or row["statistic"] == "deviation":
                    assert pd.isna(given)
                else:
                    distance = (pd.Timestamp(given) - pd.Timestamp(1970, 1, 1)) / pd.Timedelta(days=1)
                    assert distance == pytest.approx(row[name], abs=1e-5)
    (median,) = (r for r in table_of(of_tables.numbers) if (r["column"], r["statistic"]) == ("day", "quantile 0.9"))
    assert pd.Timestamp(median["reference_date"]) == pd.Timestamp(2023, 12, 31)
    # Without dates there are no such columns.
    assert "lower_date" not in TableQualityDisplay.from_tables(pd.DataFrame(REAL), pd.DataFrame(SYNTHETIC)).numbers
    plt.close("all")


@few_kinds
def test_no_real_row_is_read_and_no_release_is_drawn(make_frame):
    frame = make_frame(people().to_dict("list"))
    synthesizer, again = fit(frame, domain=PEOPLE), fit(frame, domain=PEOPLE)
    synthesizer.save(file := io.BytesIO())
    display = TableQualityDisplay.from_estimator(synthesizer)
    # A file holds what was released, and no more.
    file.seek(0)
    of_file = TableQualityDisplay.from_estimator(DPMarginalSynthesizer.load(file))
    assert type(display.marginals) is type(synthesizer.sample(1))
    for name in ("marginals", "numbers"):
        for of_released, row in zip(table_of(getattr(of_file, name)), table_of(getattr(display, name)), strict=True):
            numbers = {key: value for key, value in row.items() if isinstance(value, float)}
            assert {key: of_released[key] for key in numbers} == pytest.approx(numbers, nan_ok=True)
            assert [of_released[key] for key in row.keys() - numbers] == [row[key] for key in row.keys() - numbers]
    # Nor does it draw: rows are those of a synthesizer that was not looked at.
    again.sample(1)
    assert table_of(synthesizer.sample(5)) == table_of(again.sample(5))


@each("source title", [("measured", "Model and its noisy counts"), ("real", "Real rows: not for release")])
def test_the_title_says_whether_real_rows_are_shown(source, title):
    frame = people()
    if source == "measured":
        display = TableQualityDisplay.from_estimator(fit(frame, domain=PEOPLE))
    else:
        display = TableQualityDisplay.from_tables(frame, frame, domain=PEOPLE)
    assert display.axes_[0].get_title(loc="left") == f"{title}\n3 columns"


def test_dots_and_bars_are_the_figures_the_worst_first():
    frame = people()
    display = TableQualityDisplay.from_tables(frame, frame[::-7], domain=PEOPLE, max_columns=2, max_pairs=1)
    columns, pairs, _ = display.axes_
    table = display.marginals
    excess = (table["error"] - table["noise"]).to_numpy()
    worst = sorted(range(3), key=lambda row: -excess[row])[:2]
    assert [bar.get_width() for bar in columns.patches] == table["noise"][worst].to_list()
    assert columns.lines[0].get_xdata().tolist() == table["error"][worst].to_list()
    assert columns.get_title(loc="left").endswith("2 of 3 columns, the worst first")
    (pair,) = sorted(range(3, 6), key=lambda row: -excess[row])[:1]
    assert pairs.lines[0].get_xdata().tolist() == [table["error"][pair]]
    assert pairs.get_title(loc="left") == "1 of 3 pairs, the worst first"
