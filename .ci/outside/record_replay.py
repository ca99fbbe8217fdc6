"""Replay every estimator on neighboring tables with dp-recorder, and audit the reports of every local encoder.

dp-recorder (arXiv:2602.17454) records the numbers to which noise is added, freezes the noisy numbers in a run on a
neighboring table, and compares the numbers of both runs. It fails if the kind, the scale or the number of draws, or
anything that `fit` keeps, depends on the rows. The differences of the numbers are composed by dp-accounting and
compared with the guarantee that the estimator states.
"""

from __future__ import annotations

import functools
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import joblib
import numpy as np
import pandas as pd
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_recorder.auditing.audit_primitives import Auditor, audit_spec, ensure_equality
from sklearn.base import BaseEstimator, clone

import skdp
from skdp import Domain, Interval, PrivacyGuarantee, discover_domain
from skdp.privacy import Mu, Rho
from skdp.randomness import watch_draws

# Rows of random splits, which are the same for both tables.
ROW_SAMPLERS = ("bernoulli_ratio", "uniform_integers")
# Discretized losses of dp-accounting are rounded up by at most a thousandth each.
INTERVAL = 1e-3
ROUNDING = 2e-3
N_TABLES, N_REPORTS = 20, 2_000
# `discover_domain` draws 32,000 noisy numbers, and each of them is recorded.
N_DOMAIN_TABLES = 4

rng = np.random.default_rng(2026)


def measure_change(number: Any, other: Any) -> float:
    """Return the absolute difference of two numbers, or the range of the differences of two lists of scores."""
    changes = np.asarray(number, float) - np.asarray(other, float)
    if changes.size == 1:
        return float(abs(changes.item()))
    return float(changes.max() - changes.min())


def record(kind: str) -> Any:
    """Decorate a mechanism that gets its exact `number`; any change is allowed here, and changes are added up later."""
    return audit_spec(kind, "number", "sensitivity", measure_change)


@record("noise")
def add_noise(
    number: list[Any], noise: list[int], draw: list[Any], sensitivity: float
) -> list[Any]:
    # A list per draw: a record of dp-recorder takes a millisecond.
    return [part + drawn for part, drawn in zip(number, noise, strict=True)]


@record("choice")
def choose(
    number: Any, choice: list[int], draw: tuple[Any, ...], sensitivity: float
) -> int:
    return choice.pop()


class Hidden(list):
    """Values of a draw without their text, because dp-recorder compares the texts of all arguments except `number`.

    A choice uses as many random bytes as the scores require, so the noise of later draws differs in the second run.
    """

    def __repr__(self) -> str:
        return "hidden"


class Noise(int):
    """Noise that passes dp-recorder the number to which it is added."""

    __array_ufunc__ = None
    draw: tuple[Any, ...]

    def __add__(self, number: Any) -> Any:
        if isinstance(number, np.ndarray):
            return add_array(np.array(self, object), number)
        return add_noise([number], Hidden([int(self)]), [self.draw], math.inf)[0]

    __radd__ = __add__

    def __rsub__(self, number: Any) -> Any:
        raise NotImplementedError("skdp adds noise")


def add_array(noise: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the sums of noise and numbers, which are one record."""
    noise, numbers = np.broadcast_arrays(noise, numbers)
    drawn = noise.ravel().tolist()
    draws = [part.draw for part in drawn]
    noise = Hidden(map(int, drawn))
    sums = add_noise(numbers.ravel().tolist(), noise, draws, math.inf)
    return np.array(sums).reshape(numbers.shape)


class NoiseArray(np.ndarray):
    """Array of `Noise`, whose sums are recorded and which is otherwise an array of integers."""

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **options: Any
    ) -> Any:
        if ufunc is np.add and method == "__call__":
            is_noise = isinstance(inputs[0], NoiseArray)
            noise, numbers = inputs if is_noise else inputs[::-1]
            result = add_array(np.asarray(noise), np.asarray(numbers))
        else:
            arrays = [np.array(np.asarray(array).tolist()) for array in inputs]
            result = getattr(ufunc, method)(*arrays, **options)
        if out:
            out[0][...] = result
            return out[0]
        return result


class Watcher:
    """Passes the draws of one run of an estimator to dp-recorder."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows, self.n_draws, self.n_row_draws = rows, 0, 0

    def __call__(self, sampler: str, value: Any, parameters: dict[str, Any]) -> Any:
        if sampler in ROW_SAMPLERS:
            return self.copy_rows(value)
        self.n_draws += 1
        scale = parameters.get(
            "scale", parameters.get("variance", parameters.get("rate"))
        )
        if np.shape(value) == ():
            draw = (self.n_draws, sampler, str(Fraction(scale)), 0, 0)
            scores = np.asarray(parameters["scores"], float)
            return choose(scores, Hidden([value]), draw, math.inf)
        width = value.shape[1] if value.ndim == 2 else 1
        noise = np.empty(value.size, object)
        for index, drawn in enumerate(value.ravel().tolist()):
            noise[index] = Noise(drawn)
            noise[index].draw = (
                self.n_draws,
                sampler,
                str(Fraction(scale)),
                index,
                index // width,
            )
        return noise.reshape(value.shape).view(NoiseArray)

    def copy_rows(self, value: Any) -> Any:
        """Return the draws of rows of the first run for the rows of both tables."""
        if self.n_row_draws == len(self.rows):
            self.rows.append(value)
        first = self.rows[self.n_row_draws]
        self.n_row_draws += 1
        value = value.copy()
        value[: len(first)] = first[: len(value)]
        return value


def run(estimator: BaseEstimator, table: Any, rows: list[Any]) -> PrivacyGuarantee:
    """Fit a clone within an auditor, and compare all its attributes by dp-recorder."""
    estimator = clone(estimator)
    with watch_draws(Watcher(rows)):
        if isinstance(table, tuple):
            estimator.fit(*table)
        elif estimator.__sklearn_tags__().target_tags.required:
            estimator.fit(table.iloc[:, :-1], table.iloc[:, -1])
        else:
            estimator.fit(table)
    for name, value in sorted(vars(estimator).items()):
        if name.endswith("_") and not name.startswith("_"):
            ensure_equality(**{name: describe(value)})
    return estimator.guarantee_


def describe(value: Any) -> str:
    """Hash an attribute, or its text if two hashes of the attribute differ."""
    return (
        repr(value)
        if isinstance(value, PrivacyGuarantee | Domain)
        else joblib.hash(value)
    )


def list_losses(auditor: Auditor) -> Iterator[tuple[str, Fraction, list[float]]]:
    """Yield the sampler, scale and changes of each draw, or of each row of joint noise."""
    draws: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for entry in auditor.log:
        if entry.kind == "EQ":
            continue
        sides = entry.inputs_d["number"], entry.inputs_dp["number"]
        if entry.kind == "noise":
            changes = [
                abs(number - other) for number, other in zip(*sides, strict=True)
            ]
            labels = entry.params["draw"]
        else:
            changes, labels = [measure_change(*sides)], [entry.params["draw"]]
        for change, (number, sampler, scale, _, row) in zip(
            changes, labels, strict=True
        ):
            part = row if sampler == "cube_noise" else 0
            draws[number, sampler, scale, part].append(change)
    for (_, sampler, scale, _), changes in draws.items():
        changes = [change for change in changes if change]
        if changes:
            yield sampler, Fraction(scale), changes


def compute_epsilon(auditor: Auditor, delta: float) -> float:
    """Compose the losses of all draws: a sum without delta, otherwise by dp-accounting."""
    total, rho, distributions = 0.0, 0.0, []
    for sampler, scale, changes in list_losses(auditor):
        if not all(float(change).is_integer() for change in changes):
            return math.inf
        if sampler == "rounded_gaussian":
            mu = math.sqrt(sum(change**2 for change in changes) / float(scale))
            distributions.append(
                pld.from_gaussian_mechanism(
                    1 / mu, value_discretization_interval=INTERVAL
                )
            )
            total, rho = math.inf, rho + mu**2 / 2
            continue
        if sampler == "discrete_laplace":
            epsilons = [change / float(scale) for change in changes]
        elif sampler == "cube_noise":
            epsilons = [max(changes) / float(scale)]
        else:
            epsilons = [max(changes) * float(scale)]
        total += sum(epsilons)
        for epsilon in epsilons:
            is_bounded = sampler == "exponential_mechanism"
            rho += epsilon**2 / 8 if is_bounded else epsilon * math.tanh(epsilon / 2)
            distributions.append(
                pld.from_laplace_mechanism(
                    1 / epsilon, value_discretization_interval=INTERVAL
                )
            )
    if not delta or not distributions:
        return total
    composed = functools.reduce(
        lambda first, second: first.compose(second), distributions
    )
    # dp-accounting has no losses of an exponential mechanism, so a bound of its rho is used.
    return min(total, composed.get_epsilon_for_delta(delta), convert_rho(rho, delta))


def convert_rho(rho: float, delta: float) -> float:
    """Return the epsilon of zero-concentrated privacy at a delta (Canonne, Kamath, Steinke, 2020, proposition 12)."""
    best = math.inf
    for alpha in 1 + np.geomspace(1e-3, 1e4, 400):
        epsilon = (
            alpha * rho
            + math.log(1 / (alpha * delta)) / (alpha - 1)
            + math.log1p(-1 / alpha)
        )
        best = min(best, max(epsilon, 0.0))
    return best


def replay(
    estimator: BaseEstimator, table: Any, neighbor: Any
) -> tuple[float, float, int]:
    """Return the composed and the stated epsilon of two runs, and their number of noisy numbers.

    Linked tables are tuples. The records of the first table have the guarantee.
    """
    auditor, rows = Auditor(), []
    with auditor:
        guarantee = run(estimator, table, rows)
    auditor.set_replay()
    with auditor:
        run(estimator, neighbor, rows)
    if auditor._cursor != len(auditor.log):
        raise AssertionError("the neighboring table has fewer draws")
    auditor.validate_records()
    claim = guarantee
    n_records, n_other = (
        len(rows[0] if isinstance(rows, tuple) else rows) for rows in (table, neighbor)
    )
    if n_records == n_other and guarantee.relation == "add_remove":
        claim = guarantee.to("replace")
    n_numbers = sum(
        len(entry.params["noise"]) if entry.kind == "noise" else entry.kind != "EQ"
        for entry in auditor.log
    )
    return compute_epsilon(auditor, float(claim.delta)), float(claim.epsilon), n_numbers


class DomainFinder(BaseEstimator):
    """Estimator that calls `discover_domain`."""

    def __init__(self, delta: float = 1e-6, random_state: int | None = None) -> None:
        self.delta, self.random_state = delta, random_state

    def fit(self, table: Any) -> DomainFinder:
        self.domain_ = discover_domain(
            table, 1.0, self.delta, random_state=self.random_state
        )
        self.guarantee_ = self.domain_.guarantee
        return self


# Tables of public, random records.
N_ROWS = 40
TABLE = pd.DataFrame(
    {
        "age": rng.integers(17, 90, N_ROWS).astype(float),
        "hours": rng.integers(1, 99, N_ROWS).astype(float),
        "job": rng.choice(["clerk", "nurse", "smith"], N_ROWS),
        "sex": rng.choice(["f", "m"], N_ROWS),
        "weight": rng.integers(0, 5, N_ROWS).astype(float),
        "ill": rng.integers(0, 2, N_ROWS),
    }
)
NUMBERS, WORDS, BOUNDS = ["age", "hours"], ["job", "sex"], (0, 100)
DECLARED = {"job": ["clerk", "nurse", "smith"], "sex": ["f", "m"]}
PEOPLE = {"age": Interval(0, 100, bins=4), "job": DECLARED["job"], "ill": [0, 1]}
VISITS = {"ward": ["er", "gp", "icu"], "cost": Interval(0, 100, bins=4)}
LINKED = {"domain": PEOPLE | VISITS, "person": "id", "max_rows_per_person": 4}
FOUND = PEOPLE | {"age": Interval(0, 100)}
# Constraints of one person's events.
COMPOSED = Domain(PEOPLE | VISITS, constraints=["count(ward == 'er') <= 1"])
MU, RHO = Mu(0.5, delta=1e-6), Rho(0.05, delta=1e-6)

# Every estimator with noise, with the columns that it fits; the last is its target.
SUBJECTS: list[tuple[BaseEstimator, list[str]]] = [
    (skdp.DPMean(bounds=BOUNDS), NUMBERS),
    (skdp.DPMean(MU, bounds=BOUNDS), NUMBERS),
    (skdp.DPStandardScaler(bounds=BOUNDS), NUMBERS),
    (skdp.DPStandardScaler(RHO, bounds=BOUNDS), NUMBERS),
    (skdp.DPMinMaxScaler(bounds=BOUNDS, quantile_range=(10, 90)), NUMBERS),
    (skdp.DPRobustScaler(bounds=BOUNDS), NUMBERS),
    (skdp.DPSimpleImputer(bounds=BOUNDS), NUMBERS),
    (skdp.DPSimpleImputer(bounds=BOUNDS, strategy="median"), NUMBERS),
    (skdp.DPSimpleImputer(strategy="most_frequent", categories=DECLARED), WORDS),
    (skdp.DPKBinsDiscretizer(n_bins=3, bounds=BOUNDS), NUMBERS),
    (skdp.DPQuantileTransformer(bounds=BOUNDS, n_quantiles=5), NUMBERS),
    (skdp.DPQuantileTransformer(RHO, bounds=BOUNDS, n_quantiles=5), NUMBERS),
    (skdp.DPHistogram(domain=DECLARED), WORDS),
    (skdp.DPHistogram(MU, domain=DECLARED), WORDS),
    (
        skdp.DPHistogram(domain=Interval(0, 100, bins=64), method="hierarchical"),
        ["age"],
    ),
    (
        skdp.DPGroupBy(by="job", keys={"job": DECLARED["job"]}, bounds=BOUNDS),
        ["job", "age"],
    ),
    (
        skdp.DPGroupBy(RHO, by="job", keys={"job": DECLARED["job"]}, bounds=BOUNDS),
        ["job", "age"],
    ),
    (
        skdp.DPGroupBy(
            by="job",
            keys={"job": DECLARED["job"]},
            statistics=["count", "std", "median"],
            bounds=BOUNDS,
            totals=True,
        ),
        ["job", "age"],
    ),
    (skdp.DPPCA(n_components=1, bounds=BOUNDS), NUMBERS),
    (skdp.DPPCA(MU, bounds=BOUNDS), NUMBERS),
    (skdp.DPRidge(bounds=BOUNDS, target_bounds=(0, 1)), [*NUMBERS, "ill"]),
    (
        skdp.DPLinearRegression(5.0, delta=1e-6, bounds=BOUNDS, target_bounds=(0, 1)),
        [*NUMBERS, "ill"],
    ),
    (skdp.DPLogisticRegression(bounds=BOUNDS, classes=[0, 1]), [*NUMBERS, "ill"]),
    (skdp.DPLogisticRegression(MU, bounds=BOUNDS, classes=[0, 1]), [*NUMBERS, "ill"]),
    (skdp.DPGaussianNB(bounds=BOUNDS, classes=[0, 1]), [*NUMBERS, "ill"]),
    (skdp.DPCategoricalNB(categories=DECLARED, classes=[0, 1]), [*WORDS, "ill"]),
    (skdp.DPTargetEncoder(categories=DECLARED, bounds=(0, 1)), [*WORDS, "ill"]),
    (skdp.DPAdditiveClassifier(bounds=BOUNDS, classes=[0, 1]), [*NUMBERS, "ill"]),
    (skdp.DPAdditiveRegressor(bounds=BOUNDS, target_bounds=(0, 1)), [*NUMBERS, "ill"]),
    (skdp.DPMarginalSynthesizer(domain=PEOPLE), list(PEOPLE)),
    (skdp.DPMarginalSynthesizer(epsilon=RHO, domain=PEOPLE), list(PEOPLE)),
    (
        skdp.DPMarginalSynthesizer(epsilon=10.0, domain=PEOPLE | DECLARED),
        [*PEOPLE, "sex"],
    ),
    (skdp.DPMarginalSynthesizer(domain=FOUND), list(PEOPLE)),
    (
        skdp.DPMarginalSynthesizer(
            3.0, delta=1e-6, domain=FOUND | DECLARED, target="ill"
        ),
        [*PEOPLE, "sex"],
    ),
    (skdp.DPColumnSynthesizer(["job"], domain=PEOPLE), list(PEOPLE)),
    (skdp.DPLinkedSynthesizer(**LINKED), list(PEOPLE)),
    (skdp.DPLinkedSynthesizer(**LINKED, order_by="cost"), list(PEOPLE)),
    (skdp.DPLinkedSynthesizer(RHO, **LINKED), list(PEOPLE)),
    (skdp.DPLinkedSynthesizer(**(LINKED | {"domain": COMPOSED})), list(PEOPLE)),
    (skdp.DPLinkedSynthesizer(3.0, delta=1e-6, **LINKED), list(PEOPLE)),
    (DomainFinder(), [*NUMBERS, *WORDS]),
    (DomainFinder(delta=0.0), NUMBERS),
]


def list_neighbors(
    estimator: BaseEstimator, columns: list[str]
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Yield random tables and neighbors with the last record removed, or replaced by another.

    The guarantee of a DPColumnSynthesizer is about the values of its columns, and other columns are public.
    """
    n_tables = N_DOMAIN_TABLES if isinstance(estimator, DomainFinder) else N_TABLES
    for number in range(n_tables):
        size = int(rng.integers(1, N_ROWS))
        table = TABLE[columns].sample(size, random_state=number).reset_index(drop=True)
        others = TABLE[columns].sample(1, random_state=1_000 + number)
        if isinstance(estimator, skdp.DPLinkedSynthesizer):
            yield from list_linked(table, others)
            continue
        if isinstance(estimator, DomainFinder):
            # Texts of a single person are excluded, because delta covers them.
            table = pd.concat([COMMON[columns], table], ignore_index=True)
            size = len(table)
        if isinstance(estimator, skdp.DPColumnSynthesizer):
            public = [name for name in columns if name not in estimator.columns]
            others[public] = table[public].tail(1).to_numpy()
        else:
            yield table, table[: size - 1]
        yield table, pd.concat([table[: size - 1], others], ignore_index=True)


COMMON = pd.concat([TABLE] * 4, ignore_index=True)
"""Rows with all texts, each of them frequent."""


def list_linked(table: pd.DataFrame, others: pd.DataFrame) -> Iterator[tuple[Any, Any]]:
    """Yield people and visits, and neighbors without the last person, or with another person and other visits.

    The last person has up to 8 visits, more than `max_rows_per_person`, and other people have up to 4.
    """
    table = table.rename_axis("id").reset_index()
    last = len(table) - 1
    counts = rng.integers(0, 5, last)
    visits = draw_visits(np.repeat(np.arange(last), counts))
    both = [
        (table, pd.concat([visits, draw_visits(np.repeat(last, rng.integers(0, 9)))])),
        (
            pd.concat([table[:last], others.assign(id=last)], ignore_index=True),
            pd.concat([visits, draw_visits(np.repeat(last, rng.integers(0, 9)))]),
        ),
    ]
    yield both[0], (table[:last], visits)
    yield both[0], both[1]


def draw_visits(ids: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": ids,
            "ward": rng.choice(VISITS["ward"], ids.size),
            "cost": rng.integers(0, 100, ids.size).astype(float),
        }
    )


def replay_estimators() -> int:
    """Print a line per estimator; return the number of findings."""
    print(
        "estimator | pairs of tables | noisy numbers | largest loss / stated epsilon | findings"
    )
    n_findings = 0
    for subject, columns in SUBJECTS:
        estimator = clone(subject).set_params(random_state=0)
        shares, n_pairs, n_numbers, findings = [], 0, 0, []
        for table, neighbor in list_neighbors(estimator, columns):
            n_pairs += 1
            try:
                loss, stated, drawn = replay(estimator, table, neighbor)
            except (AssertionError, RuntimeError) as error:
                findings.append(str(error))
                continue
            n_numbers += drawn
            shares.append(loss / stated)
            if loss > stated * (1 + ROUNDING):
                findings.append(f"epsilon {loss:.6g} for the stated {stated:.6g}")
        n_findings += len(findings)
        text = " ".join(repr(subject).split())
        print(
            f"{text} | {n_pairs} | {n_numbers} | {max(shares, default=math.nan):.4f} | {len(findings)}"
        )
        for finding in findings[:3]:
            print(f"    {finding[:300]}")
    return n_findings


VALUES = ["a", "b", "c", "d"]
ENCODERS: list[BaseEstimator] = [
    skdp.RandomizedResponseEncoder(categories=[VALUES]),
    skdp.UnaryEncodingTransformer(categories=[VALUES]),
    skdp.UnaryEncodingTransformer(categories=[VALUES], variant="symmetric"),
    skdp.SubsetSelectionEncoder(categories=[VALUES]),
    skdp.LocalHashingEncoder(categories=[VALUES]),
    skdp.FrequencyOracleEncoder(categories=[VALUES]),
    skdp.NumericPerturber(bounds=(0, 3)),
]


def audit_encoders() -> int:
    """Print dp-recorder's lower bound of epsilon of each encoder; return the number above the stated epsilon."""
    print("encoder | reports | lower bound of epsilon | stated epsilon")
    n_findings = 0
    for subject in [*ENCODERS, skdp.HeavyHitters(max_length=2)]:
        for epsilon in (0.5, 1.0, 2.0):
            encoder = clone(subject).set_params(epsilon=epsilon)
            values = ("a", "d")
            if isinstance(encoder, skdp.HeavyHitters):
                describe_report = functools.partial(describe_prefix, encoder)
            else:
                values = (0.0, 3.0) if "bounds" in encoder.get_params() else values
                encoder.fit(pd.DataFrame({"value": values}))
                describe_report = functools.partial(describe_cells, encoder)
            bound = audit_reports(describe_report, *values)
            stated = float(encoder.guarantee_.epsilon)
            n_findings += bound > stated
            print(
                f"{' '.join(repr(encoder).split())} | {N_REPORTS} | {bound:.3f} | {stated:.3f}"
            )
    return n_findings


def describe_cells(encoder: BaseEstimator, value: Any) -> np.ndarray:
    """Report a value; return the numbers of the report, or the values to which its cells are equal."""
    frame = pd.DataFrame({"value": [value]})
    if isinstance(encoder, skdp.LocalHashingEncoder):
        # A report supports all values with the same hash: these have the largest count.
        return encoder.estimate_counts(encoder.transform(frame))["count"].to_numpy()
    codes = np.asarray(encoder.transform(frame))
    if codes.dtype.kind in "OU":
        return np.array(
            [float(cell == other) for cell in codes.ravel() for other in VALUES]
        )
    return codes.astype(float).ravel()


def describe_prefix(finder: skdp.HeavyHitters, value: str) -> np.ndarray:
    """Report a word of at most two bytes; return for each value if the bucket is its hash.

    Bit i of a hash is the parity of the common bits of the word and of word i of the hash function.
    """
    _, bucket, *words = finder.report(np.array([value]))[0].tolist()
    numbers = [int.from_bytes(other.encode().ljust(2, b"\0")) for other in VALUES]
    hashes = [
        sum(((word & number).bit_count() & 1) << i for i, word in enumerate(words))
        for number in numbers
    ]
    return np.array([float(bucket == number) for number in hashes])


def audit_reports(
    describe_report: Callable[[Any], np.ndarray], first: Any, second: Any
) -> float:
    """Return dp-recorder's lower bound of epsilon from the reports of two values."""

    @audit_spec(
        "report", "value", "sensitivity", lambda value, other: float(value != other)
    )
    def report(value: Any, sensitivity: float) -> Any:
        return describe_report(value)

    auditor = Auditor()
    with auditor:
        report(first, 1.0)
    auditor.set_replay()
    with auditor:
        report(second, 1.0)
    auditor.run_distributional_audit(n_samples=N_REPORTS)
    return max(0.0, auditor.log[0].empirical_epsilon_lb)


if __name__ == "__main__":
    n_findings = replay_estimators() + audit_encoders()
    print(f"{n_findings} findings")
    sys.exit(n_findings > 0)
