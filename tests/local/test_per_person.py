"""Several rows a person: exactly r reports of each, epsilon for the person, estimates about persons."""

from __future__ import annotations

import math
import pickle
import re
from collections import Counter
from fractions import Fraction
from itertools import permutations, product
from unittest import SkipTest

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import (
    BudgetExceeded,
    LocalTableEncoder,
    NumericPerturber,
    PerPerson,
    PrivacyLedger,
    RandomizedResponseEncoder,
    SetValuedEncoder,
    privacy_statement,
)
from skdp.engines import privatize
from skdp.exact import exp_bounds
from skdp.frames import PROTOCOL_KEY
from skdp.local import SecretKey
from skdp.local.persons._rows import choose_rows
from skdp.privacy import Shuffled
from skdp.randomness import SeededSource
from skdp.testing import privatizer_checks
from tests.conftest import each, often

VALUES = {"page": ["a", "b", "c"]}
RNG = np.random.default_rng(1)
SIZES = RNG.integers(1, 6, 300)
PERSONS = np.repeat([f"p{place}" for place in range(300)], SIZES)
FAVOURITE = RNG.dirichlet([0.5, 0.5, 0.5], 300)
ROWS = pd.DataFrame(
    {"page": [RNG.choice(list("abc"), p=FAVOURITE[place]) for place in np.repeat(np.arange(300), SIZES)]}
)
# The share of a person's own rows, each person alike.
TRUTH = pd.crosstab(PERSONS, ROWS["page"], normalize="index").mean()


def encoder(epsilon=2.0, **parameters):
    return RandomizedResponseEncoder(epsilon, **{"categories": VALUES, "random_state": 0} | parameters)


class OwnPersons(PerPerson):
    """Each row is of a person of its own, for checks that give no persons."""

    def transform(self, X, groups=None):
        return super().transform(X, groups=list(range(len(X))) if hasattr(X, "__len__") else [])


CHECKS = [
    name
    for name, _ in privatizer_checks(OwnPersons(encoder()), ROWS[:20])
    # It has no row labels; its parameters, seed and ledger are those of the transformer inside.
    if name not in ("check_frames_in_and_out", "check_later_parameters_wait_for_fit", "check_set_output")
]


@pytest.mark.parametrize(
    "name", often(CHECKS, [name for name in CHECKS if not re.search("workers|forks|calls_are_alike", name)])
)
def test_it_is_a_privatizer(name):
    try:
        dict(privatizer_checks(OwnPersons(encoder(random_state=None)), ROWS[:20]))[name]()
    except SkipTest as skipped:
        assert str(skipped)  # noqa: PT017


@each("most", [1, 2])
@each("epsilon", [0.5, 2.0])
def test_whole_persons_keep_the_promise(most, epsilon):
    """All reports of persons of one to three rows, for all of their rows: every pair of persons."""
    private = PerPerson(encoder(epsilon), max_rows_per_person=most).fit(ROWS)
    (table,) = private.transformer_.channel()
    laws = []
    for size in (1, 2, 3):
        # Which rows are reported is enumerated by the order of the random words; each order is equally likely.
        chosen = Counter()
        for order in permutations(range(size)):
            words = np.array(order, "<u8").view(np.uint8)
            chosen[tuple(choose_rows(np.zeros(size, np.intp), most, Scripted(words)).tolist())] += 1
        total = sum(chosen.values())
        for rows in product(range(3), repeat=size):
            law = Counter()
            for (places, times), reports in product(chosen.items(), product(range(3), repeat=most)):
                shares = (table[rows[place]][report] for place, report in zip(places, reports, strict=True))
                law[reports] += Fraction(times, total) * math.prod(shares, start=Fraction(1))
            assert sum(law.values()) == 1
            laws.append(law)
    worst = max(max(law[report] for law in laws) / min(law[report] for law in laws) for report in laws[0])
    assert worst <= exp_bounds(epsilon)[0] ** most
    assert worst <= exp_bounds(private.guarantee_.epsilon)[1]
    assert private.guarantee_.epsilon == pytest.approx(most * epsilon)


class Scripted:
    def __init__(self, words):
        self.words = words

    def bytes(self, size):
        assert size == self.words.size
        return self.words


@each("most", [1, 2, 3, 7])
def test_rows_are_drawn_alike(most):
    sizes = np.array([1, 2, 3, 5])
    persons, n = np.repeat(np.arange(4), sizes), 400
    times = np.zeros(persons.size)
    for turn in range(n):
        chosen = choose_rows(persons, most, SeededSource(turn)).reshape(4, most)
        assert (persons[chosen] == np.arange(4)[:, np.newaxis]).all()
        counts = np.bincount(chosen.ravel(), minlength=persons.size)
        assert (np.abs(counts - most / sizes[persons]) < 1).all()
        times += counts
    assert np.abs(times / n - most / sizes[persons]).max() < 4 / math.sqrt(n)


@each("most", [1, 3])
def test_every_person_has_as_many_reports(most):
    for frame in (ROWS, pl.from_pandas(ROWS), pa.Table.from_pandas(ROWS), ROWS.set_axis(PERSONS)):
        private = PerPerson(encoder(random_state=None), max_rows_per_person=most)
        reports = private.fit_transform(frame, groups=PERSONS)
        assert type(reports) is type(frame)
        assert len(reports) == 300 * most
        if isinstance(reports, pd.DataFrame):
            assert reports.index.equals(pd.RangeIndex(300 * most))
    polars = PerPerson(encoder()).set_output(transform="polars")
    assert isinstance(polars.fit_transform(ROWS, groups=PERSONS), pl.DataFrame)
    array = PerPerson(encoder(categories=[VALUES["page"]])).fit_transform(ROWS.to_numpy(), groups=PERSONS)
    assert array.shape == (300, 1)


@pytest.mark.slow
@each("most", [1, 2])
def test_estimates_are_about_persons(most):
    private = PerPerson(encoder(3.0, random_state=None), max_rows_per_person=most).fit(ROWS)
    inside, errors = [], []
    for _ in range(25):
        found = private.estimate_frequencies(private.transform(ROWS, groups=PERSONS))
        inside.append((found["lower"] <= TRUTH) & (found["upper"] >= TRUTH))
        errors.append((found["frequency"] - TRUTH) / found["std_error"])
    assert np.abs(np.mean(errors, axis=0)).max() < 4 / math.sqrt(25)
    assert np.mean(inside) >= 0.93
    assert np.std(errors) <= 1.08  # too large rather than too small: rows of a person are alike here
    rows = ROWS["page"].value_counts(normalize=True).sort_index()
    assert np.abs(rows - TRUTH).max() > 0.01  # another thing is estimated than the share of all rows


@pytest.mark.long
def test_intervals_cover_the_population_that_persons_are_drawn_from():
    """Persons with many rows are others: those of few rows visit "a" alone."""
    private, rng, inside = PerPerson(encoder(3.0, random_state=None)).fit(ROWS), np.random.default_rng(0), []
    for _ in range(50):
        sizes = rng.integers(1, 6, 500)
        persons = np.repeat(np.arange(500), sizes)
        pages = np.where(sizes[persons] < 3, "a", rng.choice(list("abc"), persons.size))
        found = private.estimate_frequencies(private.transform(pd.DataFrame({"page": pages}), groups=persons))
        truth = np.array([2 / 5 + 1 / 5, 1 / 5, 1 / 5])
        inside.append((found["lower"] <= truth) & (found["upper"] >= truth))
    assert np.mean(inside) == pytest.approx(0.95, abs=0.045)


def test_numbers_tables_and_lists():
    numbers = pd.DataFrame({"hours": RNG.uniform(0, 10, len(PERSONS)), "page": ROWS["page"]})
    truth = numbers.groupby(PERSONS)["hours"].mean().mean()
    one = PerPerson(NumericPerturber(4.0, bounds={"hours": (0, 10)}, random_state=0))
    found = one.estimate_mean(one.fit_transform(numbers[["hours"]], groups=PERSONS)).loc["hours"]
    assert abs(found["mean"] - truth) < 4 * found["std_error"]
    both = PerPerson(LocalTableEncoder(4.0, categories=VALUES, bounds={"hours": (0, 10)}, random_state=0))
    reports = both.fit_transform(numbers, groups=PERSONS)
    assert both.estimate_frequencies(reports).shape == (3, 4)
    assert both.tally(reports).n_reports == 300
    lists = pd.DataFrame({"page": [[page] for page in ROWS["page"]]})
    sets = PerPerson(SetValuedEncoder(4.0, categories=VALUES, max_size=1, random_state=0))
    found = sets.estimate_frequencies(sets.fit_transform(lists, groups=PERSONS))
    assert (np.abs(found["frequency"] - TRUTH) < 4 * found["std_error"]).all()
    with pytest.raises(AttributeError):
        one.estimate_frequencies(one.transform(numbers[["hours"]], groups=PERSONS))


def test_a_person_is_charged_once_for_all_reports():
    ledger = PrivacyLedger(epsilon=5)
    private = PerPerson(encoder(2.0, ledger=ledger, random_state=None), max_rows_per_person=2).fit(ROWS)
    assert private.guarantee_.epsilon == pytest.approx(4)
    assert private.guarantee_.secure
    assert private.guarantee_.mechanism.endswith("2 rows of each person")
    private.transform(ROWS, groups=PERSONS)
    assert ledger.report()["epsilon"].tolist() == [private.guarantee_.epsilon]
    with pytest.raises(BudgetExceeded):
        private.transform(ROWS, groups=PERSONS)
    stated = privacy_statement(private)
    assert "released as is" not in repr(stated)
    assert stated.total.epsilon == private.guarantee_.epsilon
    page = stated.to_html()
    assert "one person with up to 2 records replaced by another; the number of persons is public" in page
    assert "number of records" not in page
    assert PerPerson(encoder(2.0)).fit(ROWS).guarantee_.max_rows_per_person == 1


def test_all_is_refused_before_the_charge():
    ledger = PrivacyLedger(epsilon=50)
    private = PerPerson(encoder(ledger=ledger)).fit(ROWS)
    strange = ROWS.assign(page=["secret", *ROWS["page"][1:]])
    for X, groups, message in [
        (ROWS, None, "groups must be given"),
        (ROWS, PERSONS[1:], "groups must have an id for each"),
        (ROWS, [None, *PERSONS[1:]], "groups"),
        (strange, PERSONS, "outside the declared categories"),
        (ROWS.rename(columns={"page": "other"}), PERSONS, "feature names"),
    ]:
        with pytest.raises(ValueError, match=message) as caught:
            private.transform(X, groups=groups)
        assert "secret" not in str(caught.value)
    assert ledger.report().empty


@each(
    "make, kind, message",
    [
        (lambda: PerPerson(encoder(), max_rows_per_person=0), ValueError, "max_rows_per_person must be between 1"),
        (lambda: PerPerson(encoder(), max_rows_per_person=1.5), TypeError, "max_rows_per_person must be an integer"),
        (lambda: PerPerson(RandomizedResponseEncoder), TypeError, "got RandomizedResponseEncoder"),
        (lambda: PerPerson("encoder"), TypeError, "got str"),
        (lambda: PerPerson(encoder(memoize=True, secret_key=SecretKey.generate())), ValueError, "permanent reports"),
    ],
)
def test_parameters_are_checked(make, kind, message):
    with pytest.raises(kind, match=message):
        make().fit(ROWS)


def test_engines_refuse_it():
    with pytest.raises(TypeError, match="rows of whole tables"):
        privatize(pl.from_pandas(ROWS).lazy(), PerPerson(encoder()))


def test_seeds_replay_and_copies_draw_their_own():
    one = PerPerson(encoder()).fit(ROWS)
    first = one.transform(ROWS, groups=PERSONS)
    assert not one.transform(ROWS, groups=PERSONS).equals(first)
    assert PerPerson(encoder()).fit(ROWS).transform(ROWS, groups=PERSONS).equals(first)
    secure = pickle.loads(pickle.dumps(PerPerson(encoder(random_state=None)).fit(ROWS)))
    assert not secure.transform(ROWS, groups=PERSONS).equals(secure.transform(ROWS, groups=PERSONS))
    assert not one.guarantee_.secure


def test_more_reports_than_fit_cost_nothing(monkeypatch):
    monkeypatch.setattr("skdp.oracles._support.MAX_REPORT_BYTES", 1 << 16)
    ledger = PrivacyLedger(epsilon=1e6)
    many = SetValuedEncoder(1.0, categories={"p": range(64)}, max_size=2, oracle="set_unary_encoding", ledger=ledger)
    rows = pd.DataFrame({"p": [[1]] * 4})
    assert len(PerPerson(many.set_params(ledger=None), max_rows_per_person=100).fit_transform(rows, groups=[*range(4)]))
    fitted = PerPerson(many.set_params(ledger=ledger), max_rows_per_person=1024).fit(rows)
    with pytest.raises(ValueError, match="4,096 reports of 64 cells"):
        fitted.transform(rows, groups=[*range(4)])
    assert ledger.spent.epsilon == 0


def test_rows_that_cannot_be_repeated_cost_nothing():
    ledger = PrivacyLedger(epsilon=9)
    rows = pa.table({"p": pa.array([["a"], [], ["a", "b"]], pa.list_(pa.string_view()))})
    lists = SetValuedEncoder(1.0, categories={"p": ["a", "b", "c"]}, max_size=2, ledger=ledger)
    fitted = PerPerson(lists).fit(rows)
    with pytest.raises(ValueError, match="X has columns of a type whose rows cannot be repeated"):
        fitted.transform(rows, groups=[1, 1, 2])
    assert ledger.spent.epsilon == 0


@pytest.mark.parametrize("most", [1, 4])
def test_reports_carry_no_guarantee_of_less_than_a_person(most):
    reports = PerPerson(encoder(), max_rows_per_person=most).fit_transform(ROWS, groups=PERSONS)
    assert (PROTOCOL_KEY in reports.attrs) == (most == 1)


def test_a_guarantee_after_shuffling_is_for_one_report():
    wanted = encoder(Shuffled(1.0, 1e-6, 10_000))
    assert PerPerson(wanted).fit(ROWS).guarantee_.epsilon > 1
    with pytest.raises(ValueError, match="one report of each person"):
        PerPerson(wanted, max_rows_per_person=2).fit(ROWS)


def test_persons_in_another_order_than_the_rows_are_refused():
    persons = pd.Series(PERSONS, index=ROWS.index)
    fitted = PerPerson(encoder()).fit(ROWS)
    assert len(fitted.transform(ROWS, groups=persons)) == 300
    with pytest.raises(ValueError, match="row labels of X in another order"):
        fitted.transform(ROWS, groups=persons[::-1])
