"""The test of an audit: some draws choose an event that is much likelier under one table, and others count it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from skdp.evaluation.audits._releases import (
    FORM,
    Audited,
    Outputs,
    Situation,
    column_of,
    combine,
    hash_cells,
    raised,
    stack_calls,
    to_floats,
)

# A sample of outputs of each table.
Samples = Sequence[Outputs]

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.float64]

# Draws, if their number is not given: an audit of rows takes some seconds, as does one
# of calls.
_ROWS, _CALLS = 1_000_000, 10_000

# Of few single calls: those of each table that look for events, those that choose
# between the two best events, and the most that test one.
_FIRST, _AGAIN, _MOST_CALLS = 7, 25, 4_096

# Calls that look for what happens rarely: one for so many rows, if there are enough to
# see what happens in one of a hundred. An event that they find is tested by more.
_ROWS_OF_RARE_CALL, _LEAST_RARE_CALLS, _MOST_RARE_CALLS = 1_600, 500, 16_384


# A column of more distinct numbers is cut into as many bins, and a sum of log ratios is
# tried at as many thresholds.
_BINS = 64
_NOT_FINITE = 1 << 20  # no bin, and no weight of a bit, has this number


def default_draws(audited: Audited) -> int:
    """Return the number of draws if none is asked for."""
    return _ROWS if audited.each_row else _CALLS


def search(
    audited: Audited, n_draws: int | None, claimed: float, *, delta: float, level: float
) -> Bound:
    """Bound epsilon from below by the best event of single calls and, where rows are draws, of rows."""
    if not audited.each_row:
        return _by_calls(audited, n_draws or default_draws(audited), delta, level)
    # Two tests, each at half of the level.
    n_rows = n_draws or default_draws(audited)
    of_rows = by_rows(audited, n_rows, delta, level / 2)
    if of_rows is not None and of_rows.epsilon_lower > claimed:
        return of_rows
    # Without a test of rows, the calls alone must give a bound.
    needs_event = of_rows is None
    of_calls = _by_few_calls(
        audited, n_rows, claimed, delta, level / 2, needs_event=needs_event
    )
    if of_rows is None:
        return of_calls
    best = max(of_rows, of_calls, key=lambda bound: bound.epsilon_lower)
    return replace(
        best,
        reach=max(of_rows.reach, of_calls.reach),
        n_draws=of_rows.n_draws + of_calls.n_draws,
    )


@dataclass(frozen=True)
class Bound:
    """A lower bound of epsilon, the largest that this number of draws could give, and the event that gave it."""

    epsilon_lower: float
    reach: float
    n_draws: int
    event: Event | None


def clopper_pearson(successes: int, trials: int, tail: float) -> tuple[float, float]:
    """Bound a probability from both sides, each bound wrong with probability at most `tail`."""
    # C. Clopper, E. Pearson (1934). The use of confidence or fiducial limits
    # illustrated in the case of the binomial. Biometrika 26(4).
    low, high = 0.0, 1.0
    if successes > 0:
        low = float(beta.ppf(tail, successes, trials - successes + 1))
    if successes < trials:
        high = float(beta.isf(tail, successes + 1, trials - successes))
    return low, high


def epsilon_lower_bound(
    hits: tuple[int, int], trials: tuple[int, int], *, delta: float, level: float
) -> float:
    """Bound epsilon from below: ``ln((P - delta) / P')``, at the bounds of the two probabilities of an event."""
    low, _ = clopper_pearson(hits[0], trials[0], level / 2)
    _, high = clopper_pearson(hits[1], trials[1], level / 2)
    return math.log((low - delta) / high) if low - delta > high else 0.0


def _reach(size: int, delta: float, level: float) -> float:
    """Return the largest bound that `size` draws of each table can give."""
    return epsilon_lower_bound((size, 0), (size, size), delta=delta, level=level)


def _choice_draws(n: int, n_tables: int) -> int:
    """Return the size of each of the two samples of each table that choose the event."""
    # A tenth of the draws; of few more, up to three tenths, as a bad choice costs more
    # than fewer draws of the test.
    share = n / (2 * n_tables)
    return max(1, int(0.1 * share), min(5_000, int(0.3 * share)))


def by_rows(audited: Audited, n: int, delta: float, level: float) -> Bound | None:
    """Test by rows; None if a table of many rows cannot be released, or is not released row by row."""
    n_tables = len(audited.tables)
    n_choice = _choice_draws(n, n_tables)
    size = (n - 2 * n_choice * n_tables) // 2
    try:
        ranking = audited.samples(n_choice)
        scoring = audited.samples(n_choice)
    except Exception:
        return None  # single calls show which tables are refused
    # Two samples choose the event; the draws that test it are fresh.
    event = choose_event(ranking, scoring, delta=delta)
    n_drawn = 2 * n_choice * n_tables
    reach = _reach(size, delta, level)
    if event is None:
        return Bound(0.0, reach, n_drawn, None)
    n_columns = len(ranking[0])
    # Of the likelier table first.
    hits = [0, 0]
    for side, table in enumerate((event.likelier, event.unlikelier)):
        for n_rows, outputs in audited.batches(table, size, width=n_columns):
            if outputs is not None:
                hits[side] += int(event.holds(outputs).sum())
            elif side == 1:
                # A batch that fails counts as evidence against rejection, on either
                # side.
                hits[side] += n_rows
    lower = epsilon_lower_bound(
        (hits[0], hits[1]), (size, size), delta=delta, level=level
    )
    return Bound(lower, reach, n_drawn + 2 * size, event)


def bound_by_rows(
    fitted: Any,
    tables: Sequence[Any],
    *,
    delta: float,
    confidence_level: float,
    n_draws: int = _ROWS,
) -> tuple[float, str] | None:
    """Bound the epsilon of `transform` by rows alone, and name the event; None if many equal rows are refused."""
    audited = Audited(fitted.transform, list(tables), each_row=True, fitted=fitted)
    bound = by_rows(audited, n_draws, delta, 1 - confidence_level)
    if bound is None:
        return None
    return bound.epsilon_lower, "" if bound.event is None else bound.event.name


def _by_calls(audited: Audited, n_calls: int, delta: float, level: float) -> Bound:
    """Test by single calls, where a release is one draw."""
    n_tables = sum(map(len, audited.groups()))
    n_choice = _choice_draws(n_calls, n_tables)
    candidates = _candidates(audited, n_choice, delta, few=False)
    n_drawn = 2 * n_choice * n_tables
    size = (n_calls - n_drawn) // 2
    best = candidates[0] if candidates else None
    return _test(audited, best, size, n_drawn, delta, level)


@dataclass(frozen=True)
class _Candidate:
    """An event of single calls, and the tables that it distinguishes."""

    event: Event
    likelier: Situation
    unlikelier: Situation

    def hits(self, audited: Audited, n_calls: int) -> tuple[int, int]:
        """Count how often the event comes in fresh calls of either table."""
        outputs = audited.call_batch(self.likelier, n_calls)
        more = int(self.event.holds(outputs).sum())
        outputs = audited.call_batch(self.unlikelier, n_calls)
        return more, int(self.event.holds(outputs).sum())


def _by_few_calls(
    audited: Audited,
    n_rows: int,
    claimed: float,
    delta: float,
    level: float,
    *,
    needs_event: bool,
) -> Bound:
    """Bound epsilon by some hundred calls besides the rows."""
    # A call takes as long as thousands of rows: one more of each table for 40,000.
    n_more = n_rows // 40_000
    n_first, n_again = _FIRST + n_more, _AGAIN + n_more
    candidates = _candidates(audited, n_first, delta, few=True)
    n_drawn = 2 * n_first * sum(map(len, audited.groups()))
    trials = []
    for candidate in candidates[:2]:
        trials.append(_Trial.of(audited, candidate, n_again, _MOST_CALLS, delta, level))
    n_rare = n_rows // _ROWS_OF_RARE_CALL
    group = audited.group_of_many_rows() if n_rare >= _LEAST_RARE_CALLS else []
    if group:
        n_drawn += 2 * n_rare * len(group)
        rare = _rare_candidate(audited, group, n_rare, delta)
        if rare is not None:
            trials.append(
                _Trial.of(audited, rare, n_rare, _MOST_RARE_CALLS, delta, level)
            )
    n_drawn += sum(2 * trial.n_calls for trial in trials)
    # An event is tested only if it could refute the claim, with as many calls as that
    # takes; or, if there has to be one, with those of an event that always shows.
    enough = [n for n in _SIZES if _reach(n // 2, delta, level) > claimed]
    usual_size = min([*enough, _MOST_CALLS])
    best = max(trials, key=lambda trial: trial.expected[-1], default=None)
    size = None if best is None else best.size(claimed)
    if best is None or (size is None and not needs_event):
        return _test(audited, None, usual_size, n_drawn, delta, level)
    size = size or usual_size
    return _test(audited, best.candidate, size, n_drawn, delta, level)


# The numbers of calls that a test may take.
_SIZES = [64 << power for power in range(9)]


@dataclass(frozen=True)
class _Trial:
    """What further calls say of an event: the bound that a test of each size can be expected to give."""

    candidate: _Candidate
    n_calls: int
    sizes: list[int]
    expected: list[float]

    @classmethod
    def of(
        cls,
        audited: Audited,
        candidate: _Candidate,
        n_calls: int,
        most: int,
        delta: float,
        level: float,
    ) -> _Trial:
        hits = candidate.hits(audited, n_calls)
        sizes = [size for size in _SIZES if size <= most]
        expected = [_expected(hits, n_calls, size, delta, level) for size in sizes]
        return cls(candidate, n_calls, sizes, expected)

    def size(self, claimed: float) -> int | None:
        """Return twice the least size that can be expected to refute a claim; None if there is none."""
        for place, bound in enumerate(self.expected):
            if bound > claimed:
                # The bound of half of all tests of this size is less.
                return self.sizes[min(place + 1, len(self.sizes) - 1)]
        return None


def _rare_candidate(
    audited: Audited, group: list[Situation], n_calls: int, delta: float
) -> _Candidate | None:
    """Look for an event of one in a hundred calls in their form: errors, warnings, dtypes, what is printed."""
    samples = []
    for _ in range(2):
        batches = [audited.call_batch(situation, n_calls) for situation in group]
        samples.append([{FORM: batch[FORM]} for batch in batches])
    event = choose_event(*samples, delta=delta, few=True)
    if event is None:
        return None
    return _Candidate(event, group[event.likelier], group[event.unlikelier])


def _expected(
    hits: tuple[int, int], trials: int, size: int, delta: float, level: float
) -> float:
    """Return the bound that a test of some size can be expected to give."""
    more, less = (np.array(hits) + 0.5) / (trials + 1)
    if hits == (trials, 0):
        more, less = 1.0, 0.0
    elif hits[1] == 0 and trials >= _LEAST_RARE_CALLS:
        less = 0.0  # half a hit is a large share of the few of a rare event
    # Half a standard error less, as chance would choose too many events for a test.
    more = max(0.0, more - 0.5 * math.sqrt(more * (1 - more) / trials))
    expected = round(more * size), round(less * size)
    return epsilon_lower_bound(expected, (size, size), delta=delta, level=level)


def _candidates(
    audited: Audited, n_calls: int, delta: float, *, few: bool
) -> list[_Candidate]:
    """Choose the best event of each group of tables, the best of all first."""
    groups = audited.groups()
    ranking = []
    errors: list[str | None] = []
    for group in groups:
        calls = [audited.calls(situation, n_calls) for situation in group]
        errors += map(raised, chain.from_iterable(calls))
        ranking.append(list(map(stack_calls, calls)))
    if None not in errors:
        kinds = ", ".join(sorted(set(map(str, errors))))
        raise ValueError(f"every release of the neighbouring tables failed ({kinds})")
    candidates = []
    for group, sample in zip(groups, ranking, strict=True):
        scoring = [audited.call_batch(situation, n_calls) for situation in group]
        event = choose_event(sample, scoring, delta=delta, few=few)
        if event is not None:
            pair = group[event.likelier], group[event.unlikelier]
            candidates.append(_Candidate(event, *pair))
    # Stable: of equal scores, the plainer group is first.
    candidates.sort(key=lambda candidate: -candidate.event.score)
    return candidates


def _test(
    audited: Audited,
    candidate: _Candidate | None,
    size: int,
    n_drawn: int,
    delta: float,
    level: float,
) -> Bound:
    """Count an event in fresh calls; without one, the bound is 0."""
    reach = _reach(size, delta, level)
    if candidate is None:
        return Bound(0.0, reach, n_drawn, None)
    hits = candidate.hits(audited, size)
    lower = epsilon_lower_bound(hits, (size, size), delta=delta, level=level)
    # The event is named by the kind of call, its tables by their places among the
    # neighbours.
    event = replace(
        candidate.event,
        name=candidate.likelier.name + candidate.event.name,
        likelier=candidate.likelier.place,
        unlikelier=candidate.unlikelier.place,
    )
    return Bound(lower, reach, n_drawn + 2 * size, event)


@dataclass(frozen=True)
class Event(ABC):
    """A set of outputs, and the two tables that it distinguishes."""

    name: str
    likelier: int
    unlikelier: int
    score: float

    @abstractmethod
    def holds(self, outputs: Outputs) -> NDArray[np.bool_]:
        """Return which outputs are in the set."""


@dataclass(frozen=True)
class _Union(Event):
    """Some of the outcomes of a feature."""

    feature: Feature
    members: Hashes

    def holds(self, outputs: Outputs) -> NDArray[np.bool_]:
        # By sorting: NumPy 2.0 counts in a table where the values are near one another,
        # and overflows beyond 2**63.
        return np.isin(self.feature.outcomes(outputs), self.members, kind="sort")


@dataclass(frozen=True)
class _LargeSum(Event):
    """The sum of the columns' log ratios is at least a threshold."""

    features: list[Feature]
    ratios: list[_LogRatios]
    threshold: float

    def holds(self, outputs: Outputs) -> NDArray[np.bool_]:
        outcomes = [feature.outcomes(outputs) for feature in self.features]
        return _log_ratio_sums(outcomes, self.ratios) >= self.threshold - _TIE


_TIE = 1e-9  # sums in another order of their terms differ by less


@dataclass(frozen=True)
class _LogRatios:
    """The log ratio of each outcome of a feature, sorted by outcome."""

    outcomes: Hashes
    values: Numbers


def choose_event(
    ranking: Samples, scoring: Samples, *, delta: float = 0.0, few: bool = False
) -> Event | None:
    """Choose the pair of tables and the event that promise the largest lower bound."""
    # The first sample orders the outcomes of each feature by how much likelier they are
    # under one table than under another; the second scores the unions of the first
    # outcomes of this order, so that an event which fits the first sample by chance is
    # not chosen. The test of the event needs a third sample.
    names = list(dict.fromkeys(chain.from_iterable(ranking)))
    events: list[Event] = []
    if few:
        # One standard error less, where there is hardly anything to estimate one from.
        features = [_values_of(name, ranking) for name in names]
        for feature in features:
            events += _unions(feature, ranking, scoring, delta, caution=1.0)
    else:
        coarse = [_coarse(name, ranking) for name in names]
        for feature in _all_features(names, coarse, ranking):
            events += _unions(feature, ranking, scoring, delta, caution=3.0)
        for features, name in _summed_features(coarse, ranking):
            events += _sums(features, name, ranking, scoring, delta)
    return max(events, key=lambda event: event.score, default=None)


def _scores(
    hits: Sequence[NDArray[np.int64]],
    sizes: Sequence[int],
    delta: float,
    caution: float,
) -> Numbers:
    """Estimate log ratios conservatively, by some standard errors less than the counts of the second sample say."""
    more = (hits[0] + 0.5) / (sizes[0] + 1)
    less = (hits[1] + 0.5) / (sizes[1] + 1)
    more = more - caution * np.sqrt(more * (1 - more) / sizes[0]) - delta
    less = less + caution * np.sqrt(less * (1 - less) / sizes[1])
    return np.log(np.maximum(more, 1e-300) / less)


def _unions(
    feature: Feature,
    ranking: Samples,
    scoring: Samples,
    delta: float,
    *,
    caution: float,
) -> Iterator[Event]:
    """Yield the best union of outcomes of a feature for each pair of tables."""
    first = list(map(feature.outcomes, ranking))
    outcomes = _frequent(first)
    if len(outcomes) == 0:
        return
    second = list(map(feature.outcomes, scoring))
    ranked = _tabulate(first, outcomes)  # (n_tables, n_outcomes), as the next
    scored = _tabulate(second, outcomes)
    for likelier, unlikelier in permutations(range(len(ranking)), 2):
        # Half a count more, so that an outcome that was seen once is not infinitely
        # likelier.
        ratios = (ranked[likelier] + 0.5) / (ranked[unlikelier] + 0.5)
        order = np.argsort(-ratios, kind="stable")
        hits = [scored[table][order].cumsum() for table in (likelier, unlikelier)]
        sizes = [len(second[likelier]), len(second[unlikelier])]
        scores = _scores(hits, sizes, delta, caution)
        best = int(np.argmax(scores))
        if scores[best] > 0:
            # By the lemma of Neyman and Pearson, the best event is a set of the
            # outcomes with the largest ratios.
            members = outcomes[order[: best + 1]]
            score = float(scores[best])
            name = f"values of {feature.name}"
            yield _Union(name, likelier, unlikelier, score, feature, members)


def _summed_features(
    coarse: list[Feature], ranking: Samples
) -> Iterator[tuple[list[Feature], str]]:
    """Yield the features whose log ratios are added up, and the name of the sum."""
    # The best event if the columns are independent; also conditional on the first or
    # the last column, such as RAPPOR's cohort.
    name = "the sum of the columns' log ratios"
    if len(coarse) > 1:
        yield coarse, name
    if len(coarse) > 2:
        for root in (coarse[0], coarse[-1]):
            # A root of many values would leave too few draws for each.
            outcomes = list(map(root.outcomes, ranking))
            if len(_frequent(outcomes)) > _BINS:
                continue
            pairs = [_joined(root, leaf) for leaf in coarse if leaf is not root]
            yield [root, *pairs], f"{name}, given {root.name}"


def _sums(
    features: list[Feature],
    name: str,
    ranking: Samples,
    scoring: Samples,
    delta: float,
) -> Iterator[Event]:
    """Yield, for each pair of tables, the best event "the sum of the log ratios is at least t"."""
    first = [list(map(feature.outcomes, ranking)) for feature in features]
    second = [list(map(feature.outcomes, scoring)) for feature in features]
    outcomes = list(map(_frequent, first))
    counts = list(map(_tabulate, first, outcomes))
    for likelier, unlikelier in permutations(range(len(ranking)), 2):
        used = []
        ratios = []
        for place, n_seen in enumerate(counts):
            values = _log_ratios(n_seen[likelier], n_seen[unlikelier])
            if values.any():
                used.append(place)
                ratios.append(_LogRatios(outcomes[place], values))
        if len(used) < 2:
            continue
        ranked = _log_ratio_sums([first[i][likelier] for i in used], ratios)
        # Quantiles of the sums under the likelier table.
        shares = np.linspace(0, 1, _BINS + 1)[1:]
        thresholds = np.unique(np.quantile(ranked, shares, method="lower"))
        hits = []
        sizes = []
        for table in (likelier, unlikelier):
            sums = _log_ratio_sums([second[i][table] for i in used], ratios)
            n_below = np.searchsorted(np.sort(sums), thresholds - _TIE)
            hits.append(len(sums) - n_below)
            sizes.append(len(sums))
        scores = _scores(hits, sizes, delta, caution=3.0)
        best = int(np.argmax(scores))
        if scores[best] > 0:
            yield _LargeSum(
                name,
                likelier,
                unlikelier,
                float(scores[best]),
                [features[i] for i in used],
                ratios,
                float(thresholds[best]),
            )


def _frequent(outcomes: Sequence[Hashes]) -> Hashes:
    """Return the outcomes that are seen often enough, sorted."""
    values, counts = np.unique(np.concatenate(outcomes), return_counts=True)
    # An outcome that is seen less often in the first sample is ignored: its ratio is
    # noise.
    least_seen = 4
    return values[counts >= least_seen]


def _tabulate(outcomes: Sequence[Hashes], values: Hashes) -> NDArray[np.int64]:
    """Count each of some sorted values under each table; other outcomes are not counted."""
    counts = np.zeros((len(outcomes), len(values)), np.int64)
    if len(values):
        for table, hashes in enumerate(outcomes):
            places, is_listed = _find(hashes, values)
            counts[table] = np.bincount(places[is_listed], minlength=len(values))
    return counts


def _find(hashes: Hashes, values: Hashes) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the places of hashes among sorted values, and which of them are there."""
    places = np.minimum(np.searchsorted(values, hashes), len(values) - 1)
    return places, values[places] == hashes


def _log_ratios(more: NDArray[np.int64], less: NDArray[np.int64]) -> Numbers:
    """Return the log ratio of each outcome, 0 unless it is beyond three standard errors."""
    top, bottom = more + 0.5, less + 0.5
    ratios: Numbers = np.log(top / bottom)
    ratios[np.abs(ratios) < 3.0 * np.sqrt(1 / top + 1 / bottom)] = 0
    return ratios


def _log_ratio_sums(outcomes: Sequence[Hashes], ratios: list[_LogRatios]) -> Numbers:
    """Add up the log ratios of the outcomes of some features, 0 for unknown outcomes."""
    total = np.zeros(len(outcomes[0]))
    for hashes, table in zip(outcomes, ratios, strict=True):
        places, is_listed = _find(hashes, table.outcomes)
        total += np.where(is_listed, table.values[places], 0.0)
    return total


@dataclass(frozen=True)
class Feature(ABC):
    """A function of an output with discrete values."""

    name: str
    columns: tuple[str, ...]

    @abstractmethod
    def outcomes(self, outputs: Outputs) -> Hashes:
        """Return the value of each output, as a hash or a small number."""


class _Values(Feature):
    """The values of some columns together."""

    def outcomes(self, outputs: Outputs) -> Hashes:
        # (n_columns, n_outputs)
        hashes = [hash_cells(column_of(outputs, name)) for name in self.columns]
        return reduce(combine, hashes)


@dataclass(frozen=True)
class _Bins(Feature):
    """Bins of the numbers of a column."""

    edges: Numbers

    def outcomes(self, outputs: Outputs) -> Hashes:
        numbers = to_floats(column_of(outputs, self.columns[0]))
        bins = np.searchsorted(self.edges, numbers, side="right")
        return np.where(np.isfinite(numbers), bins, _NOT_FINITE).astype(np.uint64)


class _LowestBit(Feature):
    """The weight of the lowest set bit, which depends on the value that float noise was added to (Mironov 2012)."""

    def outcomes(self, outputs: Outputs) -> Hashes:
        numbers = to_floats(column_of(outputs, self.columns[0]))
        is_usual = np.isfinite(numbers) & (numbers != 0)
        # A float is fraction * 2**exponent, and fraction * 2**53 is an integer.
        fraction, exponent = np.frexp(np.where(is_usual, numbers, 1.0))
        integer = np.abs(np.ldexp(fraction, 53)).astype(np.int64)
        lowest = (integer & -integer).astype(float)
        n_zeros = np.frexp(lowest)[1].astype(np.int64) - 1
        weight = exponent + n_zeros - 53
        special = _NOT_FINITE + (numbers == 0)
        return np.where(is_usual, weight, special).astype(np.int64).view(np.uint64)


@dataclass(frozen=True)
class _Pair(Feature):
    """Two features together."""

    parts: tuple[Feature, Feature]

    def outcomes(self, outputs: Outputs) -> Hashes:
        left, right = self.parts
        return combine(left.outcomes(outputs), right.outcomes(outputs))


def _joined(left: Feature, right: Feature) -> Feature:
    """Combine two features."""
    name = f"{left.name} with {right.name}"
    return _Pair(name, left.columns + right.columns, (left, right))


def _all_features(
    names: list[str], coarse: list[Feature], samples: Samples
) -> list[Feature]:
    """List what is looked at in columns, pairs of them, and all together."""
    features: list[Feature] = [_values_of(name, samples) for name in names]
    features += [feature for feature in coarse if isinstance(feature, _Bins)]
    for name in names:
        numbers = _finite(name, samples)
        if (numbers == np.floor(numbers)).all():
            continue
        bit = f"the lowest bit of {_label(name, samples)}"
        features.append(_LowestBit(bit, (name,)))
    if len(names) > 1:
        features.append(_Values("all columns together", tuple(names)))
    return features


def _values_of(name: str, samples: Samples) -> Feature:
    """Return the feature of the values of a column."""
    return _Values(_label(name, samples), (name,))


def _coarse(name: str, samples: Samples) -> Feature:
    """Return the values of a column, or bins of them if there are many."""
    numbers = _finite(name, samples)
    if len(np.unique(numbers)) <= _BINS:
        return _values_of(name, samples)
    shares = np.linspace(0, 1, _BINS + 1)[1:-1]
    edges = np.unique(np.quantile(numbers, shares))
    return _Bins(f"bins of {_label(name, samples)}", (name,), edges)


def _finite(name: str, samples: Samples) -> Numbers:
    """Return the finite numbers of a column, of all samples."""
    numbers = np.concatenate([to_floats(column_of(sample, name)) for sample in samples])
    return numbers[np.isfinite(numbers)]


def _label(name: str, samples: Samples) -> str:
    """Name a column in a result; a name that some outputs lack may contain a value."""
    if "\0" in name or not all(name in sample for sample in samples):
        return "a part that not every output has"
    return name
