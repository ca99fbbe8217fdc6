"""Statistics of a population from the noisy counts of one marginal: exactness, coverage, unsupported statistics."""

from datetime import date

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, Interval
from skdp.synthesis import synthetic_inference
from tests.conftest import quick_first

N = 5_000
DOMAIN = {"age": Interval(0, 80, bins=8), "sex": ["f", "m"], "income": Interval(0, 100, bins=10, real=True)}
NAMES = list(DOMAIN)


def people(n=N, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n, p=[0.4, 0.6])
    age = rng.integers(0, 81, n)
    income = (20 + 0.4 * age + 8 * (sex == "m") + 10 * rng.normal(size=n)).clip(0, 100)
    return pd.DataFrame({"age": age, "sex": sex, "income": income})


def fit_model(table, epsilon=1.0, seed=0, domain=DOMAIN, marginals=(NAMES,), **parameters):
    if not isinstance(marginals, str):
        marginals = list(marginals)
    parameters = {"delta": 1e-9, "domain": domain, "marginals": marginals, "random_state": seed} | parameters
    return DPMarginalSynthesizer(epsilon, **parameters).fit(table)


def statistics(table):
    men = table["sex"] == "m"
    return {
        "mean": table["income"].mean(),
        "share": men.mean(),
        "difference": table["income"][men].mean() - table["income"][~men].mean(),
    }


def infer(synthesizer, statistic=statistics, columns=("sex", "income"), **options):
    return synthetic_inference(synthesizer, statistic, columns=list(columns), **options).set_index("term")


def test_statistics_without_noise_equal_the_table():
    table = people()
    found = infer(fit_model(table, 1e4))
    expected = statistics(table)
    assert found["supported"].all()
    assert (found["reason"] == "").all()
    for term, value in expected.items():
        assert found.loc[term, "estimate"] == pytest.approx(value, rel=0.02)
    # The standard error of a sample of as many records.
    assert found.loc["share", "std_error"] == pytest.approx(np.sqrt(0.24 / N), rel=0.1)
    assert found.loc["mean", "std_error"] == pytest.approx(table["income"].std() / np.sqrt(N), rel=0.1)


@pytest.mark.parametrize("interval", [Interval(0.0, 1.0, bins=2), Interval(0.0, 1.0, bins=2, decimals=2)])
def test_deviation_includes_the_spread_within_bins(interval):
    table = pd.DataFrame({"x": np.round(np.arange(N) / (N - 1), 2 if interval.decimals else 9)})
    synthesizer = fit_model(table, 1e4, domain={"x": interval}, marginals=[("x",)])
    found = infer(synthesizer, lambda rows: {"std": rows["x"].std()}, columns=["x"])
    assert found.loc["std", "estimate"] == pytest.approx(table["x"].std(), rel=0.01)


@pytest.mark.long
def test_intervals_have_the_stated_coverage():
    """New people from one population in each fit, and new noise; columns in one marginal."""
    population, n_fits = statistics(people(100_000, seed=99)), 200
    covered = []
    domain = {name: DOMAIN[name] for name in ("sex", "income")}
    for seed in range(n_fits):
        table = people(2_000, seed + 1)[["sex", "income"]]
        found = infer(fit_model(table, 0.3, seed, domain, [("sex", "income")]))
        for term, value in population.items():
            if found.loc[term, "supported"]:
                covered.append(found.loc[term, "lower"] <= value <= found.loc[term, "upper"])
    assert len(covered) > 0.99 * 3 * n_fits  # noise may make a difference not linear
    share = np.mean(covered)
    assert 0.95 - 4 * np.sqrt(0.05 / (3 * n_fits)) < share < 0.985


def test_standard_error_includes_noise_and_sampling():
    domain = {"sex": DOMAIN["sex"]}
    synthesizer = fit_model(people(2_000)[["sex"]], 0.3, 0, domain, [("sex",)])
    found = infer(synthesizer, lambda rows: (rows["sex"] == "m").mean(), ["sex"]).loc["statistic"]
    share, n, noise = found["estimate"], synthesizer.n_rows_, synthesizer.marginals_[0].std_error
    variance = noise**2 * (share**2 + (1 - share) ** 2) / n**2 + share * (1 - share) / n
    assert found["std_error"] == pytest.approx(np.sqrt(variance), rel=1e-3)


def test_columns_without_a_common_marginal_are_not_supported():
    synthesizer = fit_model(people(), marginals=[("age", "sex"), ("income",)])
    found = infer(synthesizer)
    assert not found["supported"].any()
    assert found["reason"].str.contains("no measured marginal").all()
    assert found[["std_error", "lower", "upper", "p_value"]].isna().all().all()
    assert infer(synthesizer, lambda rows: rows["income"].mean(), ["income"])["supported"].all()


def test_values_counted_together_are_not_supported():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.geometric(0.4, (300, 4)).clip(1, 12), columns=list("abcd"))
    table["b"] = table["a"].where(rng.random(300) < 0.5, table["b"])
    synthesizer = fit_model(table, 5.0, domain=dict.fromkeys("abcd", range(1, 13)), marginals="auto")
    grouped = next(marginal for marginal in synthesizer.marginals_ if marginal.groups)
    names = [synthesizer.domain_.columns[column] for column in grouped.clique]
    found = infer(synthesizer, lambda rows: rows.corr().iloc[0, 1], names)
    assert found["reason"].str.contains("counts rare values together: name it in `marginals`").all()
    named = fit_model(
        table, 5.0, domain=dict.fromkeys("abcd", range(1, 13)), marginals=[names, ("a",), ("b",), ("c",), ("d",)]
    )
    assert "counts rare" not in infer(named, lambda rows: rows.corr().iloc[0, 1], names)["reason"].item()


def test_group_within_the_noise_is_not_supported():
    table = people(2_000)
    table["sex"] = np.where(np.arange(2_000) < 3, "f", "m")
    found = [infer(fit_model(table, 0.3, seed=seed)).loc["difference"] for seed in range(2)]
    reasons = [term["reason"] for term in found if not term["supported"]]
    assert reasons
    assert all("not linear within the noise of the counts: declare narrower" in reason for reason in reasons)


def test_statistics_that_no_row_changes_are_not_supported():
    def statistic(rows):
        return {"constant": 1.0, "number of rows": len(rows) / 3, "median": rows["income"].median()}

    found = infer(fit_model(people()), statistic)
    assert not found["supported"].any()
    reason = "all rows change the statistic equally or not at all, as for a median or a number of rows"
    assert set(found["reason"]) == {reason}


def test_statistic_of_found_bins_is_not_supported():
    """Intervals of a slope covered 0.54, because the noise that determines bins is also in the points within them."""
    domain = DOMAIN | {"age": Interval(0, 80), "grade": Interval(0, 3, decimals=0)}
    table = people().assign(grade=np.arange(N) % 4)
    synthesizer = fit_model(table, 3.0, domain=domain, marginals=[("age", "grade", "sex")])
    found = infer(synthesizer, lambda rows: np.polyfit(rows["age"], rows["sex"] == "m", 1)[0], ["age", "sex"])
    assert not found["supported"].any()
    assert found["reason"].str.contains("bins of a column are found .* is not in the standard errors: declare").all()
    # Each bin of the grade has one number.
    for columns in (["sex"], ["sex", "grade"]):
        assert infer(synthesizer, lambda rows: (rows["sex"] == "m").mean(), columns)["supported"].all()


def test_jump_within_a_bin_is_not_supported():
    table = people(20_000)[["age"]]
    synthesizer = fit_model(table, 5.0, domain={"age": DOMAIN["age"]}, marginals=[("age",)])

    def from_limits(rows):
        assert rows.index.equals(pd.RangeIndex(len(rows)))
        shares = {f"from {limit}": (rows["age"] >= limit).mean() for limit in (30, 33, 80)}
        return shares | {"above 30": (rows["age"] > 30).mean(), "mean": rows["age"].mean()}

    found = infer(synthesizer, from_limits, ["age"])
    assert found["supported"].to_dict() == {
        "from 30": True,
        "from 33": False,
        "from 80": False,
        "above 30": False,
        "mean": True,
    }
    assert "an edge of a bin at each limit" in found.loc["from 33", "reason"]
    # The name of the term is a number within a bin.
    named = infer(synthesizer, lambda rows: {rows["age"].min(): rows["age"].mean()}, ["age"])
    assert not named["supported"].any()


@pytest.mark.parametrize("age", quick_first(1, [DOMAIN["age"], Interval(0, 80, bins=40, real=True)]))
def test_means_of_small_groups_do_not_jump(age):
    table = people(20_000)
    table["sex"] = np.where(np.arange(20_000) < 60, "f", "m")
    synthesizer = fit_model(
        table[["age", "sex"]], 100.0, domain={"age": age, "sex": ["f", "m"]}, marginals=[("age", "sex")]
    )
    found = infer(synthesizer, lambda rows: rows.groupby("sex")["age"].mean(), ["age", "sex"])
    assert found["supported"]["m"]
    assert not found["reason"].str.contains("edge of a bin").any()


def test_names_of_columns_may_be_numbers():
    synthesizer = fit_model(people(500)[["age"]].set_axis([0], axis=1), domain={0: DOMAIN["age"]}, marginals=[(0,)])
    assert infer(synthesizer, lambda rows: rows[0].mean(), [0])["supported"].all()


def test_change_outside_the_model_is_not_supported():
    table = pd.DataFrame({"x": np.full(300, 33.0), "g": np.where(np.arange(300) % 5 < 2, "a", "b")})
    domain = {"x": Interval(0, 100, bins=5, decimals=0), "g": ["a", "b"]}

    def difference(rows):
        return rows.loc[rows.g == "a", "x"].mean() - rows.loc[rows.g == "b", "x"].mean()

    for seed in range(3):
        synthesizer = DPMarginalSynthesizer(0.3, domain=domain, marginals=[("x", "g")], random_state=seed).fit(table)
        found = synthetic_inference(synthesizer, difference)
        assert found["supported"].all() or found["reason"].all()


def test_missing_numbers_and_dates_in_bins_are_supported():
    rng = np.random.default_rng(0)
    days = np.datetime64("2020-01-01") + rng.integers(0, 700, N)
    table = pd.DataFrame({"day": days, "n": np.where(rng.random(N) < 0.2, np.nan, rng.uniform(0, 50, N))})
    domain = {
        "day": Interval(date(2020, 1, 1), date(2022, 1, 1), bins=4),
        "n": Interval(0, 50, bins=4, real=True, missing=True),
    }

    def statistic(rows):
        days = (rows["day"] - pd.Timestamp("2020-01-01")).dt.days
        return {"missing": rows["n"].isna().mean(), "n": rows["n"].mean(), "day": days.mean()}

    found = infer(fit_model(table, 50, 0, domain, [("day", "n")]), statistic, ["day", "n"])
    assert found["supported"].all()
    for term, value in statistic(table).items():
        assert found.loc[term, "estimate"] == pytest.approx(value, rel=0.03)


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"synthesizer": people(3)}, TypeError, "must be a DPMarginalSynthesizer, got DataFrame"),
            ({"statistic": 3}, TypeError, "must be a function of a table, got int"),
            ({"statistic": lambda rows: "x"}, TypeError, "must return a number"),
            ({"statistic": lambda rows: None}, ValueError, "must return finite numbers"),
            ({"statistic": lambda rows: np.nan}, ValueError, "must return finite numbers"),
            ({"statistic": lambda rows: {}}, ValueError, "must return at least one number, got none"),
            ({"statistic": lambda rows: {str(len(rows)): 1.0}}, ValueError, "must return the same terms"),
            ({"columns": ["q"]}, ValueError, "must name columns of the model"),
            ({"columns": []}, ValueError, "at least one column"),
            ({"confidence_level": 2}, ValueError, "confidence_level"),
        ],
    )
    def test_invalid_arguments_raise_an_error(self, options, error, message):
        with pytest.raises(error, match=message):
            synthetic_inference(
                **{"synthesizer": SMALL, "statistic": statistics, "columns": ["sex", "income"]} | options
            )

    def test_too_many_combinations_raise_an_error(self):
        domain = {"age": range(81), "sex": ["f", "m"], "income": Interval(0, 100, bins=100, real=True)}
        synthesizer = fit_model(people(100), domain=domain, marginals="independent")
        with pytest.raises(ValueError, match=r"combinations of values, .*, got 32,400"):
            synthetic_inference(synthesizer, statistics, columns=["age", "sex", "income"])


SMALL = fit_model(people(200))
