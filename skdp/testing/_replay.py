"""Recording of the noise of a release, its replay on a neighboring table, and comparison of losses with its guarantee.

The two runs of a replay differ only in the numbers to which the noise is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import chain, repeat, zip_longest
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from skdp._arrays import TableLike
from skdp.base import collect_output, split_if_supervised
from skdp.privacy import (
    Loss,
    PrivacyGuarantee,
    StatedLoss,
    exponential_loss,
    gaussian_loss,
    laplace_loss,
    pure_mu,
    smallest_epsilon,
    zcdp_epsilon,
)
from skdp.randomness import watch_draws
from skdp.testing._subject import hash_value, list_fitted_attributes

# Samplers that draw a number for each row, for example to split the rows at random.
ROW_SAMPLERS = ("bernoulli_ratio", "uniform_integers")


@dataclass
class Draw:
    """Draw of one run: name and arguments of the sampler, result, and sums with statistics."""

    sampler: str
    parameters: dict[str, Any]
    value: Any
    shape: tuple[int, ...] = ()
    # For each value of the flat array of noise: pairs (number without noise, noisy number).
    sums: list[list[tuple[Any, Any]]] = field(default_factory=list)


class Recording:
    """Run of a release: its draws, its result or error, and its warnings, logs and output.

    A replay returns the results of the draws of an earlier run.
    """

    # The replay returns the recorded choices and, if noise is added to a number, the
    # recorded sum. Everything that is computed from released numbers, including the
    # parameters of later draws, is therefore equal in both runs. Only the numbers to
    # which noise is added differ. The log ratio of the probabilities of the recorded
    # sums under both tables is the sum over the draws (composition of an adaptive
    # release).

    def __init__(
        self, release: Callable[[], Any], earlier: Sequence[Draw] = ()
    ) -> None:
        self.draws: list[Draw] = []
        self._earlier = earlier
        self.result: Any = None
        self.error: Exception | None = None
        with collect_output() as self.messages, watch_draws(self._watch):
            try:
                self.result = release()
            except Exception as error:
                self.error = error

    def _find_earlier(self, index: int, sampler: str) -> Draw | None:
        """Return the draw of the earlier run with this index, if it has the same sampler."""
        if index < len(self._earlier) and self._earlier[index].sampler == sampler:
            return self._earlier[index]
        return None

    def _watch(self, sampler: str, value: Any, parameters: dict[str, Any]) -> Any:
        """Record a draw of `skdp.randomness`, and return its result or a recorded result.

        `sampler` is the name of the function, `value` its result, and `parameters` its arguments. Arrays of noise are
        replaced by arrays that record the numbers to which they are added.
        """
        draw_index = len(self.draws)
        recorded = self._find_earlier(draw_index, sampler)
        shape = np.shape(value)
        if sampler in ROW_SAMPLERS:
            if recorded is not None:
                value = _copy_start(value, recorded.value)
            self.draws.append(Draw(sampler, parameters, value, shape))
            return value
        # A single value is a choice, which is equal in both runs.
        if shape == ():
            if recorded is not None:
                value = recorded.value
            self.draws.append(Draw(sampler, parameters, value))
            return value
        draw = Draw(sampler, parameters, None, shape, [[] for _ in range(value.size)])
        self.draws.append(draw)
        earlier = chain(recorded.sums if recorded is not None else [], repeat(()))
        values = np.empty(value.size, object)
        values[:] = list(map(_NoiseValue, value.ravel().tolist(), draw.sums, earlier))
        return values.reshape(shape).view(_Noise)


def _copy_start(values: NDArray[Any], start: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of the draws of rows, with the recorded draws for the rows of both tables."""
    values = values.copy()
    values[: len(start)] = start[: len(values)]
    return values


class _NoiseValue(int):
    """Integer noise value that records the numbers to which it is added."""

    # With None, NumPy calls the methods of this class for sums.
    __array_ufunc__ = None

    sums: list[tuple[Any, Any]]
    recorded_sums: Sequence[tuple[Any, Any]]

    def __new__(
        cls,
        value: int,
        sums: list[tuple[Any, Any]],
        recorded_sums: Sequence[tuple[Any, Any]],
    ) -> _NoiseValue:
        noise = super().__new__(cls, value)
        noise.sums, noise.recorded_sums = sums, recorded_sums
        return noise

    def _add_to(self, number: Any, sign: int = 1) -> Any:
        """Record a number, or each number of an array, and return its sum with the noise.

        With the sign -1, return the number minus the noise. `sums` collects the numbers of one run. In a replay, a
        second run on a neighbor of the table, `recorded_sums` has the sums of the first run, which are returned.
        """
        if isinstance(number, np.ndarray):
            parts = [self._add_to(part, sign) for part in number.ravel().tolist()]
            return np.array(parts).reshape(number.shape)
        total = number + sign * int(self)
        if len(self.sums) < len(self.recorded_sums):
            _, total = self.recorded_sums[len(self.sums)]
        self.sums.append((number, total))
        return total

    def __add__(self, number: object) -> Any:
        """Return noise + number."""
        return self._add_to(number)

    __radd__ = __add__

    def __sub__(self, number: float) -> Any:
        """Return noise - number."""
        return self._add_to(-1 * number)

    def __rsub__(self, number: object) -> Any:
        """Return number - noise."""
        return self._add_to(number, -1)


class _Noise(np.ndarray):
    """Array of noise values, whose sums with numbers are recorded."""

    def __array_ufunc__(
        self,
        ufunc: np.ufunc,
        method: str,
        *inputs: object,
        out: tuple[NDArray[Any], ...] = (),
        **options: object,
    ) -> Any:
        """Record the numbers of a sum or difference with the noise; apply other functions to plain numbers."""
        is_sum = ufunc in (np.add, np.subtract) and method == "__call__"
        arrays = []
        for array in inputs:
            # Sums of arrays of objects call the methods of `_NoiseValue`.
            dtype = object if is_sum else _find_dtype(array)
            arrays.append(np.asarray(array).astype(dtype))
        result = getattr(ufunc, method)(*arrays, **options)
        # Sums with Python integers stay Python integers, which may exceed 64 bits.
        is_exact = any(
            np.asarray(array).dtype.kind == "O"
            for array in inputs
            if type(array) is not _Noise
        )
        if is_sum and not is_exact:
            result = result.astype(_find_dtype(result))
        if out:
            out[0][...] = result
            return out[0]
        return result


def _find_dtype(numbers: object) -> Any:
    """Return the numeric dtype of an array of Python numbers."""
    return np.array(np.asarray(numbers).tolist()).dtype


def compute_changes(first: Draw, second: Draw) -> list[int] | None:
    """Return the absolute differences of the numbers to which noise was added in two runs.

    `first` and `second` are one draw of noise in both runs. The differences have the order of the noise. None if a
    difference is not an integer or not finite.
    """
    changes = []
    # Joint noise (`cube_noise`) is one vector per row, so its norms depend on the order.
    for first_sums, second_sums in zip(first.sums, second.sums, strict=True):
        for (number, _), (other_number, _) in zip(
            first_sums, second_sums, strict=False
        ):
            change = _subtract_exactly(number, other_number)
            if change is None:
                return None
            changes.append(abs(change))
    return changes


def _subtract_exactly(number: float, other_number: float) -> int | None:
    """Return an exact difference; None if it is not an integer or not finite."""
    if type(number) is int and type(other_number) is int:
        return number - other_number
    if not (math.isfinite(number) and math.isfinite(other_number)):
        return None
    # Numbers are converted to Python numbers, because NumPy integers overflow.
    change = Fraction(np.asarray(number).item()) - Fraction(
        np.asarray(other_number).item()
    )
    return change.numerator if change.denominator == 1 else None


def find_reused_samplers(draws: Sequence[Draw]) -> list[str]:
    """Return the names of samplers with a noise value that was added to several numbers."""
    names = []
    for draw in draws:
        if any(len(sums) > 1 for sums in draw.sums):
            names.append(draw.sampler)
    return list(dict.fromkeys(names))


def list_scores(draw: Draw) -> list[Any]:
    """Return the scores of a random choice; an empty list for noise."""
    return np.asarray(draw.parameters.get("scores", []), object).tolist()


# Privacy loss of a part of a draw that is independent of the other parts: epsilon, rho,
# the smallest mu squared that covers it (each infinite if there is none), and the loss for
# the accountant.
Part = tuple[Fraction | float, float, Fraction | float, Loss]


def compute_loss(draw: Draw, other_draw: Draw) -> dict[str, Any]:
    """Return the privacy loss of one draw of noise as a row of the table of draws.

    `draw` is from the run on one table, and `other_draw` from the run on its neighbor. The loss depends on the
    differences between the numbers to which the noise was added. It is infinite if a difference is not an integer.
    """
    size = math.prod(draw.shape)
    if "scores" in draw.parameters:
        pairs = zip(list_scores(draw), list_scores(other_draw), strict=True)
        changes = [int(score) - int(other) for score, other in pairs]
        size = len(changes)
        score_range = max(changes, default=0) - min(changes, default=0)
        difference, parts = float(score_range), [_measure_choice(draw, score_range)]
    else:
        difference, parts = _measure_noise(draw, compute_changes(draw, other_draw))
    epsilons, rhos, squares, losses = zip(*parts, strict=True) if parts else ([],) * 4
    return {
        "sampler": draw.sampler,
        "size": size,
        "difference": difference,
        "epsilon": sum(epsilons),
        "rho": sum(rhos),
        "mu_squared": sum(squares),
        "losses": losses,
    }


# A part with a change that is not an integer.
_INFINITE: Part = (math.inf, math.inf, math.inf, StatedLoss(0.0))


def _measure_choice(draw: Draw, score_range: int) -> Part:
    """Return the loss of a random choice by scores, from the range of the changes of scores."""
    pure = _measure_pure(score_range, 1 / draw.parameters["rate"], 1 << 40)
    if draw.sampler != "exponential_mechanism":
        return pure
    # Its losses lie in an interval of length epsilon, so that rho = epsilon**2 / 8
    # and mu is the mu of epsilon / 2 (see `skdp.privacy.Rho` and `Mu`).
    epsilon: Any = pure[0]
    mu = pure_mu(epsilon / 2)
    mu_squared = math.inf if mu is None else mu**2
    rho = min(pure[1], float(epsilon) ** 2 / 8)
    return epsilon, rho, mu_squared, exponential_loss(epsilon)


def _measure_pure(norm: int, scale: Fraction, sensitivity: int | None = None) -> Part:
    """Return the loss of pure noise with a scale, from a change of numbers in the norm of the noise."""
    epsilon = Fraction(norm) / scale
    # A change by n is a chain of n changes by 1 in `laplace_loss`.
    loss = laplace_loss(epsilon, sensitivity or max(1, norm))
    mu = pure_mu(epsilon)
    rho = float(epsilon) * math.tanh(epsilon / 2)
    return epsilon, rho, math.inf if mu is None else mu**2, loss


def _measure_noise(
    draw: Draw, distances: Sequence[int] | None
) -> tuple[float, list[Part]]:
    """Return the norm of the changes of the numbers of a draw, and the losses of its independent parts.

    `distances` are the absolute changes; None if one of them is not an integer.
    """
    if distances is None:
        return math.nan, [_INFINITE]
    if "variance" in draw.parameters:
        square = sum(distance**2 for distance in distances)
        # Gaussian noise of variance v covers changes x with mu**2 = |x|**2 / v.
        mu_squared = square / draw.parameters["variance"]
        epsilon = math.inf if square else 0
        loss = gaussian_loss(mu_squared)
        part = epsilon, float(mu_squared / 2), mu_squared, loss
        return math.sqrt(square), [part]
    norms = _find_norms(draw, distances)
    scale = draw.parameters["scale"]
    return float(sum(norms)), [_measure_pure(norm, scale) for norm in norms]


def _find_norms(draw: Draw, changes: Sequence[int]) -> list[int]:
    """Return the changes of numbers with independent noise; a row of cube noise covers its largest change."""
    if draw.sampler != "cube_noise":
        return [change for change in changes if change]
    width = draw.shape[1]
    rows = range(0, len(changes), width)
    return [max(changes[start : start + width]) for start in rows]


def compose_losses(losses: pd.DataFrame, delta: Fraction) -> float:
    """Return the smallest epsilon at a delta that covers all draws together."""
    # The total is computed as a sum of epsilon, rho or mu**2, or by the accountant. Each
    # of them may be the smallest, and a release may state any of them.
    epsilon, rho = float(sum(losses["epsilon"])), sum(losses["rho"])
    if not delta or rho == math.inf:
        return epsilon
    compositions = [list(chain.from_iterable(losses["losses"]))]
    mu_squared = sum(losses["mu_squared"], Fraction(0))
    if mu_squared < math.inf:
        compositions.append([gaussian_loss(mu_squared)])
    epsilons = [epsilon, zcdp_epsilon(rho, delta) if rho else 0.0]
    for composition in compositions:
        composed = smallest_epsilon(composition, delta)
        if composed is not None:
            epsilons.append(composed)
    return min(epsilons)


def compare_with_stated(losses: pd.DataFrame, claim: PrivacyGuarantee) -> list[str]:
    """Describe a total loss of the draws that exceeds the stated total; empty if there is none.

    `losses` are the losses of the recorded draws, and `claim` is the guarantee that the release states.
    """
    # Losses are compared at several deltas, because one total may be smaller at a large
    # delta and larger at a small delta.
    deltas = [Fraction(1, 10**power) for power in (1, 2, 4, 8, 16)]
    # `smallest_epsilon` rounds up by at most some thousandths of the total, and not
    # equally for two lists of losses. At a large delta, the stated epsilon may be a small
    # part of the total, so the tolerance also depends on the epsilon of the claim.
    tolerance = 2e-3
    for delta in deltas if claim.losses else []:
        stated_epsilon = smallest_epsilon(claim.losses, delta)
        if stated_epsilon is None:
            continue
        limit = stated_epsilon * (1 + tolerance) + tolerance * claim.epsilon
        drawn_epsilon = compose_losses(losses, delta)
        # `_find_understatements` already reports an infinite epsilon.
        if limit < drawn_epsilon < math.inf:
            return [
                f"the draws lose epsilon {drawn_epsilon:.6g} at delta {float(delta):g};"
                f" the stated losses {stated_epsilon:.6g}"
            ]
    return []


# Name of the result of a function in findings.
_RESULT = "the result"


@dataclass(frozen=True)
class Replay:
    """Result of `replay_release`."""

    # One row per draw; `difference` is the distance of the numbers in the norm of the
    # sampler, for scores the largest change minus the smallest.
    draws: pd.DataFrame
    # Stated guarantee, for the relation of the two tables.
    guarantee: PrivacyGuarantee
    # Loss of all draws at the delta of the guarantee; inf if it is not bounded.
    epsilon: float
    findings: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True if there are no findings for these two tables."""
        return not self.findings


def replay_release(
    release: BaseEstimator | Callable[..., Any],
    X: TableLike,
    neighbor: TableLike,
    *,
    guarantee: PrivacyGuarantee | None = None,
    random_state: int = 0,
) -> Replay:
    """Record the noise of a release and replay it on a neighboring table.

    All draws have the same results in both runs: the same choices, and the same sums of statistics and noise. Every
    value that is computed from released numbers must therefore be equal in both runs, and the numbers before the noise
    show the sensitivity. A wrong sensitivity is detected in a single run (gray-box auditing, arXiv:2602.17454). The
    losses of the draws are added up and compared with the guarantee, by default the attribute ``guarantee_`` or
    ``guarantee`` of the result.

    `release` is an estimator, or a function from a table to a result with its own seed. The noise must be drawn by the
    samplers of `skdp.randomness`, and added without other operations: ``numbers + noise`` for arrays, or
    ``number + noise.item()``. The effect of other noise is a finding. The neighbor has one row (or the rows of one
    person) added or removed at the end, or one row replaced. Both tables are public.

    A pass means that the noise is large enough for these two tables. Samplers with wrong probabilities are not
    detected, nor differences without an effect in this run. Both runs must add the same amount of noise to the same
    number of numbers, so a count that is released only if a value occurs is a finding: check its threshold by its
    probabilities. A random choice of rows is treated as known: sampling amplifies nothing.
    """
    if isinstance(X, tuple):
        raise TypeError(
            "`X` must be one dataframe or array, got tuple. Pass the rows of all tables "
            "in one table, and divide them in the release."
        )
    tables: tuple[Any, Any] = X, neighbor
    n_rows = list(map(len, tables))
    first = Recording(partial(_run_release, release, X, random_state))
    second = Recording(
        partial(_run_release, release, neighbor, random_state), first.draws
    )
    if first.error is not None and second.error is not None:
        raise first.error
    # If only one of the releases fails, the guarantee of the other is used.
    result = second.result if first.result is None else first.result
    stated = _find_guarantee(result, guarantee)
    if first.error is not None or second.error is not None:
        return _make_error_replay(first.error, second.error, n_rows, stated)
    claim = stated
    # If a row is replaced, the guarantee for added or removed rows is converted.
    if n_rows[0] == n_rows[1] and stated.relation == "add_remove":
        claim = stated.to("replace")
    pairs, findings = _pair_draws(first.draws, second.draws)
    losses = _tabulate_losses(pairs)
    epsilon = math.inf
    if not findings:
        epsilon = compose_losses(losses, Fraction(claim.delta))
        findings += _find_understatements(losses, epsilon, claim)
    if guarantee is None and _find_guarantee(second.result, None) != stated:
        findings.append("the guarantee depends on the rows")
    for sampler in find_reused_samplers(first.draws):
        findings.append(
            f"{sampler} noise is added to two numbers: their difference is exact"
        )
    findings += _compare_results(first, second)
    if first.messages != second.messages:
        findings.append("a warning, a log record or the output depends on the rows")
    draws = losses[_DRAW_COLUMNS].astype({"epsilon": float, "rho": float})
    return Replay(draws, claim, epsilon, tuple(findings))


def _run_release(
    release: BaseEstimator | Callable[..., Any], table: TableLike, random_state: int
) -> Any:
    """Fit a clone of an estimator without its ledger and return it, or call a function and return its result."""
    if not hasattr(release, "fit"):
        return release(table)
    # The same seed gives both runs the same noise, and nothing is charged.
    estimator = clone(release)
    parameters = {"random_state": random_state, "ledger": None}
    for name in parameters.keys() & estimator.get_params(deep=False).keys():
        estimator.set_params(**{name: parameters[name]})
    return estimator.fit(*split_if_supervised(release, table))


def _find_guarantee(
    result: object, guarantee: PrivacyGuarantee | None
) -> PrivacyGuarantee:
    """Return the guarantee in the argument, otherwise the guarantee that a result states."""
    stated = guarantee
    for name in ("guarantee_", "guarantee"):
        stated = stated or getattr(result, name, None)
    if not isinstance(stated, PrivacyGuarantee):
        raise ValueError(
            "`guarantee` is required for a result without guarantee_, got None."
        )
    return stated


def _make_error_replay(
    first: Exception | None,
    second: Exception | None,
    n_rows: Sequence[int],
    stated: PrivacyGuarantee,
) -> Replay:
    """Return a failed replay if the release of only one of two tables raises an error, which reveals the rows.

    `n_rows` are the numbers of rows of both tables, and `stated` is the guarantee of the
    release that did not fail.
    """
    failed, passed = n_rows if second is None else reversed(n_rows)
    finding = (
        "the release of only one table raises an error: "
        f"{type(first or second).__name__} with {failed} rows, none with {passed}"
    )
    # The error reveals which of the two tables it was, so no epsilon covers the release.
    draws = pd.DataFrame(columns=_DRAW_COLUMNS)
    return Replay(draws, stated, epsilon=math.inf, findings=(finding,))


def _pair_draws(
    draws: Sequence[Draw], other_draws: Sequence[Draw]
) -> tuple[list[tuple[Draw, Draw]], list[str]]:
    """Pair the draws of the two runs; return no pairs and a finding if the draws do not match."""
    noise, other_noise = _select_noise(draws), _select_noise(other_draws)
    changed: set[str] = set()
    for pair in zip_longest(noise, other_noise):
        forms = [draw and _describe_draw(draw) for draw in pair]
        if forms[0] != forms[1]:
            changed |= {draw.sampler for draw in pair if draw}
    if changed:
        names = ", ".join(sorted(changed))
        return [], [f"the sampler, number or scale of draws depends on rows: {names}"]
    return list(zip(noise, other_noise, strict=True)), []


def _describe_draw(draw: Draw) -> tuple[Any, ...]:
    """Return everything of a draw that must not depend on the rows."""
    scales = [draw.parameters.get(name) for name in ("rate", "variance", "scale")]
    return draw.sampler, draw.shape, len(list_scores(draw)), *scales


def _select_noise(draws: Sequence[Draw]) -> list[Draw]:
    """Select the draws with a privacy loss: all except draws of a value for each row."""
    return [draw for draw in draws if draw.sampler not in ROW_SAMPLERS]


def _find_understatements(
    losses: pd.DataFrame, epsilon: float, claim: PrivacyGuarantee
) -> list[str]:
    """Describe each total loss of the draws that exceeds the stated epsilon, rho or losses.

    `epsilon` is the total loss of the draws at the delta of the guarantee `claim`.
    """
    findings = []
    # The relative error of sums of a few dozen floats is about 1e-14, and a wrong
    # sensitivity adds much more than 1e-9.
    tolerance = 1 + 1e-9
    if not epsilon <= claim.epsilon * tolerance:
        findings.append(
            f"the draws lose epsilon {epsilon:.6g} together, more than the stated "
            f"{claim.epsilon:.6g}"
        )
    findings += compare_with_stated(losses, claim)
    rho = sum(losses["rho"])
    if claim.rho is not None and rho > claim.rho * tolerance:
        findings.append(
            f"the draws lose rho {rho:.6g} together, more than the stated "
            f"{claim.rho:.6g}"
        )
    return findings


def _compare_results(first: Recording, second: Recording) -> list[str]:
    """Return a finding if parts of the results differ although all draws are equal, otherwise none."""
    hashes, other_hashes = _hash_parts(first.result), _hash_parts(second.result)
    names = []
    for name in sorted(hashes.keys() | other_hashes.keys()):
        if hashes.get(name) != other_hashes.get(name):
            names.append(name)
    if not names:
        return []
    return [f"{', '.join(names)}: differs, although all draws are equal"]


def _hash_parts(result: object) -> dict[str, str]:
    """Hash the attributes or items of a result, except its guarantee; return the hashes by name."""
    library = type(result).__module__.partition(".")[0]
    if hasattr(result, "get_params"):
        parts = list_fitted_attributes(result)
    elif isinstance(result, list | tuple):
        parts = {f"{_RESULT}[{index}]": part for index, part in enumerate(result)}
    elif hasattr(result, "__dict__") and library != "pandas":
        parts = {f"{_RESULT}.{name}": part for name, part in vars(result).items()}
    else:
        parts = {_RESULT: result}
    hashes = {}
    for name, part in parts.items():
        # Guarantees are compared separately.
        if not isinstance(part, PrivacyGuarantee):
            hashes[name] = hash_value(part)
    return hashes


# Columns of the table `draws` of a `Replay`.
_DRAW_COLUMNS = ["sampler", "size", "difference", "epsilon", "rho"]


def _tabulate_losses(pairs: Iterable[tuple[Draw, Draw]]) -> pd.DataFrame:
    """Return the losses of pairs of draws: the columns of `Replay.draws`, "mu_squared", and "losses" of the parts."""
    rows = [compute_loss(draw, other_draw) for draw, other_draw in pairs]
    columns = [*_DRAW_COLUMNS, "mu_squared", "losses"]
    return pd.DataFrame(rows, columns=columns).astype({"epsilon": object})
