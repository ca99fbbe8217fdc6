"""Tables of any columns under one epsilon: the plan is optimal, its errors are exact, epsilon is spent once."""

import math
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest

from skdp import Domain, FrequencyOracleEncoder, LocalTableEncoder, NumericPerturber
from skdp.exact import exp_bounds
from tests.conftest import often, quick_first
from tests.errors import refusal

VALUES = {"sex": ["F", "M"], "job": ["a", "b", "c", "d"], "town": [*"uvwxyz", None]}
BOUNDS = {"age": (0, 100), "rooms": (0, 10)}
RNG = np.random.default_rng(5)
PEOPLE = pd.DataFrame(
    {
        "sex": RNG.choice(["F", "M"], 800),
        "age": RNG.integers(15, 90, 800),
        "job": RNG.choice([*"abcd"], 800, p=[0.5, 0.3, 0.15, 0.05]),
        "rooms": RNG.integers(1, 9, 800),
        "town": RNG.choice([*"uvwxyz", "none"], 800),
    }
).replace({"town": {"none": None}})


def encoder(epsilon=4.0, **parameters):
    return LocalTableEncoder(epsilon, **{"categories": VALUES, "bounds": BOUNDS, "random_state": 0} | parameters)


def random_schema(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.choice([2, 2, 3, 5, 9, 16, 40], rng.integers(1, 6))
    domain = Domain({f"c{index}": range(size) for index, size in enumerate(sizes)})
    bounds = {f"n{index}": (0, 1) for index in range(rng.integers(0, 3))}
    return domain, bounds, float(rng.choice([0.3, 1, 2, 4, 8]))


def plan_of(values, epsilon, **options):
    return LocalTableEncoder(epsilon, categories=values, **options).plan()


class TestPlan:
    @pytest.mark.parametrize("seed", often(range(60), [1, 2]))
    def test_plan_is_at_least_as_accurate_as_split_and_sample(self, seed):
        """The errors of "split" and "sample" are computed independently of the plan."""
        domain, bounds, epsilon = random_schema(seed)
        columns = len(domain.columns) + len(bounds)
        cells = sum(domain.sizes) + 2 * len(bounds)
        errors = []
        for share, inclusion in ((epsilon / columns, 1), (epsilon, 1 / columns)):
            mechanism = NumericPerturber(share, bounds=(0, 1)).fit([[0]]).mechanism_
            spread = (1 / inclusion - 1) * (1 + 2 / 1024) / 12
            noise = mechanism.variances(np.arange(mechanism.steps + 1)).mean() / mechanism.steps**2
            error = len(bounds) * 2 * (noise / inclusion + spread) / cells
            for size in domain.sizes:
                (oracle,) = FrequencyOracleEncoder(share, categories=[range(size)]).fit([[0]]).oracles_
                spread = (1 / inclusion - 1) * (1 - 1 / size) / size
                error += size * (oracle.mean_squared_error / inclusion + spread) / cells
            errors.append(error)
        plan = plan_of(domain, epsilon, bounds=bounds)
        assert plan.error <= min(errors) * (1 + 1e-6)
        if columns == 1:
            assert plan.error == pytest.approx(errors[0])

    @pytest.mark.parametrize("workload", often(["columns", "pairs"], ["pairs"]))
    def test_probabilities_of_groups_are_optimal(self, workload):
        """Moving probability between two groups increases the error."""
        plan = plan_of(VALUES, 3.0, bounds=BOUNDS, workload=workload)
        weights, inclusions = [report.weight for report in plan.reported], plan.reports["inclusion"].tolist()
        assert sum(inclusions) == pytest.approx(plan.n_reported)
        assert max(inclusions) <= 1

        def error(probabilities):
            errors = [report.compute_error(p) for report, p in zip(plan.reported, probabilities, strict=True)]
            return np.average(errors, weights=weights)

        assert error(inclusions) == pytest.approx(plan.error)
        for more, less in permutations(range(len(inclusions)), 2):
            moved = [*inclusions]
            moved[more] += 0.01
            moved[less] -= 0.01
            assert moved[more] > 1 or error(moved) > plan.error

    def test_weights_and_purpose_change_the_plan(self):
        plain = plan_of(VALUES, 1.0, bounds=BOUNDS)
        wanted = plan_of(VALUES, 1.0, bounds=BOUNDS, weights=dict.fromkeys([*VALUES, *BOUNDS], 1) | {"age": 25})
        share = plain.reports.set_index("columns")["inclusion"], wanted.reports.set_index("columns")["inclusion"]
        assert share[1]["age"] > 2 * share[0]["age"]
        pairs = plan_of(VALUES, 1.0, bounds=BOUNDS, workload="pairs")
        assert [*pairs.groups] == [*combinations(VALUES, 2), *((name,) for name in BOUNDS)]
        assert {*pairs.mechanisms} <= {
            "randomized_response",
            "local_hashing",
            "optimal",
        }  # mechanisms of one or two columns
        wide = plan_of({name: range(40) for name in "abc"}, 1.0, workload="pairs")
        assert {*wide.mechanisms} == {"local_hashing"}

    def test_columns_are_joined_at_a_large_epsilon(self):
        """The error of the marginals is the error that the joint encoder states."""
        domain = Domain({"a": [0, 1], "b": range(3)})
        plan = plan_of(domain, 9.0)
        assert plan.groups == (("a", "b"),)
        joint = FrequencyOracleEncoder(9.0, oracle=plan.mechanisms[0], strategy="joint", categories=domain)
        joint.fit(pd.DataFrame(0, [0], domain.columns))
        n, (oracle,) = 10**12, joint.oracles_
        supported = (oracle.p + (domain.size - 1) * oracle.q) * n / domain.size
        support = np.full(domain.size, round(supported))
        uniform = joint.protocol_.empty_tally().with_sums([support, np.array([n]), np.array([n])])
        margins = [joint.estimate_counts(uniform, columns=[name]) for name in domain.columns]
        assert plan.error == pytest.approx((pd.concat(margins)["std_error"] ** 2).mean() / n, rel=1e-3)


CASES = {
    "one of all columns": (1.5, {"a": [0, 1], "b": [0, 1, 2]}, "columns"),
    "joint": (9.0, {"a": [0, 1], "b": [0, 1]}, "columns"),
    "pairs": (1.5, {"a": [0, 1], "b": [0, 1, 2], "c": [0, 1]}, "pairs"),
}


@pytest.mark.parametrize("case", CASES)
def test_record_is_within_epsilon(case):
    """Enumerate whole records: the reported groups and their reports."""
    epsilon, values, workload = CASES[case]
    fitted = LocalTableEncoder(epsilon, categories=values, workload=workload).fit(pd.DataFrame(0, [0], list(values)))
    plan, protocol = fitted.plan_, fitted.protocol_
    tables = [next(one) for one in protocol.channels(10_000)]
    worst = Fraction(1)
    for chosen in combinations(
        range(len(tables)), plan.n_reported
    ):  # the probability of a group is equal for all records
        ratios = [max(max(column) / min(column) for column in zip(*tables[index], strict=True)) for index in chosen]
        worst = max(worst, math.prod(ratios))
    assert worst <= exp_bounds(epsilon)[0]
    assert fitted.guarantee_.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert fitted.guarantee_.epsilon <= epsilon
    assert fitted.guarantee_.scope == (*values,)


@pytest.mark.filterwarnings("ignore:epsilon=60 gives weak protection")
def test_sampled_group_with_the_largest_epsilon_counts():
    """Few values have a smaller largest epsilon than many values."""
    categories = {"town": range(300), "sex": ["F", "M"], "ill": [0, 1]}
    table = pd.DataFrame({"town": [0, 1], "sex": ["F", "M"], "ill": [0, 1]})
    fitted = LocalTableEncoder(60.0, categories=categories, workload="pairs").fit(table)
    epsilons = [field.epsilon for field in fitted.protocol_.fields]
    assert fitted.guarantee_.epsilon == max(epsilons) > 1.05 * min(epsilons)


def test_reports_of_all_columns_add_up_to_epsilon():
    bounds = {f"x{index}": (0, 1) for index in range(2)}
    fitted = LocalTableEncoder(6.0, bounds=bounds).fit(pd.DataFrame(0.5, [0], list(bounds)))
    assert fitted.plan_.n_reported == 2
    total = 2 * fitted.protocol_.fields[0].epsilon
    assert total - 1e-9 <= fitted.guarantee_.epsilon <= 6.0


@pytest.mark.parametrize("workload", often(["columns", "pairs"], ["pairs"]))
def test_sampled_groups_are_independent_of_values(workload):
    fitted = encoder(1.0, workload=workload).fit(PEOPLE)
    first = fitted.transform(PEOPLE)["sampled"]
    assert fitted.fit(PEOPLE).transform(PEOPLE[::-1].reset_index(drop=True))["sampled"].equals(first)
    shares = [(first == index).mean() for index in range(len(fitted.plan_.groups))]
    assert shares == pytest.approx(fitted.plan_.reports["inclusion"].tolist(), abs=0.07)


@pytest.mark.parametrize("case", quick_first(1, ["pairs", "joint columns"]))
def test_pairs_are_unbiased_and_intervals_cover(case):
    rng, n = np.random.default_rng(0), 800
    values = {"a": [0, 1], "b": range(3), "c": [0, 1]}
    epsilon, workload = (6.0, "pairs") if case == "pairs" else (9.0, "columns")
    fitted = LocalTableEncoder(epsilon, categories=values, workload=workload, random_state=1)
    rows = pd.DataFrame({"a": rng.integers(0, 2, n), "b": rng.integers(0, 3, n), "c": 0})
    rows["c"] = (rows["a"] + rows["b"]) % 2
    fitted.fit(rows)
    releases = [fitted.transform(rows) for _ in range(25)]
    for columns in (["b", "a"], ["a", "c"]):
        truth = rows.groupby(columns).size().reindex(Domain(values).select(columns).cells(), fill_value=0)
        errors, inside = [], []
        for reports in releases:
            found = fitted.estimate_joint_counts(reports, columns)
            assert found.index.equals(truth.index)
            errors.append((found["count"] - truth) / np.maximum(found["std_error"], 1e-9))
            inside.append((found["lower"] <= truth) & (truth <= found["upper"]))
        assert np.abs(np.mean(errors, axis=0)).max() < 5 / math.sqrt(25)
        assert np.mean(inside) == pytest.approx(0.95, abs=0.09)


def test_overlapping_groups_have_the_sampling_error_of_their_union():
    """The noise is negligible. Samples are disjoint parts of one sample without replacement (Cochran 1977)."""
    rng, n = np.random.default_rng(0), 900
    values = {name: [0, 1] for name in "abc"}
    rows = pd.DataFrame({name: rng.integers(0, 2, n) for name in values})
    fitted = LocalTableEncoder(30.0, categories=values, workload="pairs", random_state=1)
    fitted.fit(rows)
    tally = fitted.tally(fitted.transform(rows))
    sizes = [size for size, group in zip(tally.sizes, fitted.plan_.groups, strict=True) if "a" in group]
    assert len(sizes) > 1
    size = sum(sizes)
    estimates = fitted.estimate_counts(tally).loc["a"]
    pd.testing.assert_frame_equal(fitted.estimate_counts(tally, columns=["a"]).loc["a"], estimates)
    expected = np.sqrt((n - size) / size / (n - 1) * estimates["count"] * (n - estimates["count"]))
    np.testing.assert_allclose(estimates["std_error"], expected, rtol=0.02)


def test_columns_of_several_groups_have_no_joint_counts():
    fitted = encoder(1.0).fit(PEOPLE)
    reports = fitted.transform(PEOPLE)
    with pytest.raises(ValueError, match=r"`columns` must be reported as one group, got \['sex', 'job'\]"):
        fitted.estimate_joint_counts(reports, ["sex", "job"])
    with pytest.raises(ValueError, match="distinct columns of"):
        fitted.estimate_joint_counts(reports, ["sex", "age"])


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"workload": "other"}, ValueError, "`workload` must be one of"),
        *[({"weights": weights}, ValueError, "`weights` must|the weight of column")
          for weights in ({"sex": 1}, dict.fromkeys(PEOPLE, 0))],
        ({"weights": "even"}, ValueError, "`weights` must be 'uniform' or a dict of column to number, got 'even'"),
        ({"bounds": {"height": (0, 1)}}, ValueError, r"`bounds` must have columns of X, .*, got \['height'\]"),
        ({"bounds": {"sex": (0, 1), "age": (0, 1)}}, ValueError, r"got \['sex'\] in both"),
        ({"categories": {}, "bounds": dict.fromkeys(PEOPLE, (0, 1)), "workload": "pairs"}, ValueError, "at least 2"),
    ],
)  # fmt: skip
def test_invalid_parameters_raise_before_charge(parameters, error, message):
    with refusal(error, message) as ledger:
        encoder(**{"ledger": ledger} | parameters).fit_transform(PEOPLE)


def test_pairs_with_fewer_cells_have_larger_weights():
    """A column in pairs with 4 and with 80 cells has a smaller error from both than from the better pair."""
    domain = {"a": range(2), "b": range(2), "c": range(40)}
    people = pd.DataFrame({name: RNG.choice(values, 4_000) for name, values in domain.items()})
    fitted = LocalTableEncoder(0.5, categories=domain, workload="pairs", random_state=0).fit(people)
    both = fitted.tally(fitted.transform(people))
    *counts, sizes, n = both.sums()
    pairs = [{*field.columns} for field in fitted.protocol_.fields]
    dropped = pairs.index({"a", "c"})
    counts[dropped], sizes[dropped] = 0 * counts[dropped], 0
    better = both.with_sums([*counts, sizes, n])
    errors = [fitted.estimate_counts(tally).loc["a", "std_error"].max() for tally in (both, better)]
    assert errors[0] < errors[1]
