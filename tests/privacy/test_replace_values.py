"""Guarantees for the values of named columns, compared with the exact channels of tiny tables."""

import json
import math
import operator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product

import pytest
from jsonschema import Draft202012Validator

from skdp import PrivacyGuarantee
from skdp.exact import exp_bounds
from skdp.privacy import compose
from tests.privacy.conftest import SCHEMA

COLUMNS = ("a", "b")
RECORDS = tuple(product((0, 1), repeat=2))
# Tables of two records, one of them (0, 1): all neighbors of a record beside another record.
TABLES = [(), *((record,) for record in RECORDS), *((record, (0, 1)) for record in RECORDS)]


def up(ratio):
    """Return an epsilon with an exponential of at least a ratio."""
    return math.nextafter(math.log(ratio), math.inf)


# A mechanism is its exact channel: for each table, the probabilities of its outputs.


def reports_of(*columns, ratio, shown=()):
    """Randomize columns of each record, and return other columns unchanged."""

    def channel(table):
        pmf = {(): Fraction(1)}
        for record in table:
            values = [record[COLUMNS.index(name)] for name in columns]
            truth = tuple(values)
            exact = tuple(record[COLUMNS.index(name)] for name in shown)
            outputs = list(product((0, 1), repeat=len(columns)))
            factor = ratio(record) if callable(ratio) else ratio
            total = factor + len(outputs) - 1
            further = {}
            for before, probability in pmf.items():
                for output in outputs:
                    weight = factor if output == truth else 1
                    further[(*before, (exact, output))] = probability * Fraction(weight, total)
            pmf = further
        return pmf

    return cache(channel)


def noisy_count_of(column, ratio=2, largest=2):
    """Count the records with a 1, with geometric noise that is clipped at the bounds."""
    share = Fraction(1, ratio)

    def channel(table):
        count = sum(record[COLUMNS.index(column)] for record in table)
        pmf = {}
        for output in range(largest + 1):
            end = output in (0, largest)
            scale = 1 / (1 + share) if end else (1 - share) / (1 + share)
            pmf[output] = scale * share ** abs(output - count)
        return pmf

    return cache(channel)


def rarely_shown(column, shown):
    """Return the records unchanged with probability 1 / 50, and reports of a column beside another one otherwise."""
    report = reports_of(column, ratio=3, shown=shown)

    def channel(table):
        pmf = {("reports", output): chance * Fraction(49, 50) for output, chance in report(table).items()}
        pmf["records", table] = Fraction(1, 50)
        return pmf

    return cache(channel)


def make_guarantee(epsilon, relation, *scope, delta=0):
    trust = "local" if relation == "replace" else "central"
    return PrivacyGuarantee(epsilon, delta=delta, relation=relation, scope=scope, trust=trust)


MECHANISMS = {
    "reports of a": (reports_of("a", ratio=3), make_guarantee(up(3), "replace", "a")),
    "reports of records": (reports_of("a", "b", ratio=2), make_guarantee(up(2), "replace")),
    "count of b": (noisy_count_of("b"), make_guarantee(up(2), "add_remove", "b")),
    "a beside b": (reports_of("a", ratio=3, shown="b"), make_guarantee(up(3), "replace_values", "a")),
    "b beside a": (reports_of("b", ratio=3, shown="a"), make_guarantee(up(3), "replace_values", "b")),
    "a by b": (
        reports_of("a", ratio=lambda record: 2 + record[1], shown="b"),
        make_guarantee(up(3), "replace_values", "a"),
    ),
    "a and b": (reports_of("a", "b", ratio=2), make_guarantee(up(2), "replace_values", "a", "b")),
    "a, rarely shown": (rarely_shown("a", "b"), make_guarantee(up(3), "replace_values", "a", delta=Fraction(1, 25))),
}


def are_neighbors(first, second, relation, scope):
    if relation == "add_remove":
        longer, shorter = sorted((first, second), key=len, reverse=True)
        removed = [longer[:index] + longer[index + 1 :] for index in range(len(longer))]
        return len(longer) == len(shorter) + 1 and shorter in removed
    if len(first) != len(second):
        return False
    changed = [(one, other) for one, other in zip(first, second, strict=True) if one != other]
    if len(changed) != 1:
        return False
    one, other = changed[0]
    differing = {name for name, left, right in zip(COLUMNS, one, other, strict=True) if left != right}
    return relation == "replace" or differing <= set(scope)


@cache
def neighbors(relation, scope=()):
    pairs = []
    for first, second in product(TABLES, TABLES):
        if are_neighbors(first, second, relation, scope):
            pairs.append((first, second))
    return pairs


def together(*channels):
    """Return the channel of independent releases from the same table."""

    def channel(table):
        pmf = {(): Fraction(1)}
        for release in channels:
            further = {}
            for before, chance in pmf.items():
                for output, probability in release(table).items():
                    further[(*before, output)] = chance * probability
            pmf = further
        return pmf

    return cache(channel)


def excess(channel, pair, ratio):
    """Return by how much the probability of a set of outputs can exceed `ratio` times the other probability."""
    first, second = map(channel, pair)
    total = Fraction(0)
    for output, probability in first.items():
        total += max(0, probability - ratio * second.get(output, 0))
    return total


def holds(channel, guarantee):
    """Return True if a guarantee holds for an exact channel."""
    scope = guarantee.scope if guarantee.relation == "replace_values" else ()
    return satisfies(channel, guarantee.relation, *scope, epsilon=guarantee.epsilon, delta=guarantee.delta)


def satisfies(channel, relation, *scope, epsilon=100, delta=0.1):
    """Return True if a channel has a guarantee, by default an extremely weak one."""
    ratio = exp_bounds(epsilon)[0]
    return all(excess(channel, pair, ratio) <= Fraction(delta) for pair in neighbors(relation, scope))


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_mechanisms_have_their_stated_guarantee(name):
    channel, stated = MECHANISMS[name]
    assert holds(channel, stated)
    # A smaller epsilon does not hold, so some neighbors attain the guarantee.
    assert not holds(channel, replace(stated, epsilon=0.9 * stated.epsilon))


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_every_conversion_holds(name):
    channel, stated = MECHANISMS[name]
    n_conversions = 0
    targets = [("replace", None), ("add_remove", None)]
    targets += [("replace_values", columns) for columns in (("a",), ("b",), ("a", "b"))]
    for relation, columns in targets:
        try:
            converted = stated.to(relation, columns=columns)
        except ValueError:
            # It is refused with reason; but a guarantee does not contain the list of all columns.
            if not (relation == "replace" and stated.scope == COLUMNS):
                assert not satisfies(channel, relation, *columns or ())
            continue
        n_conversions += 1
        assert (converted.relation, converted.scope) == (relation, columns or stated.scope)
        assert holds(channel, converted)
    assert n_conversions


@pytest.mark.parametrize("name", MECHANISMS)
def test_sums_hold_and_refused_sums_do_not(name):
    channel, one = MECHANISMS[name]
    for other_channel, other in MECHANISMS.values():
        both = together(channel, other_channel)
        protected = [set(stated.scope) for stated in (one, other) if stated.relation == "replace_values"]
        if protected and not set.intersection(*protected):
            for combine in (operator.add, lambda *pair: compose(pair)):
                with pytest.raises(ValueError, match=r"have no common guarantee.*: [ab] and [ab]"):
                    combine(one, other)
            assert not any(satisfies(both, "replace_values", scope) for scope in COLUMNS)
            continue
        for total in (one + other, compose([one, other])):
            assert holds(both, total)
            if protected:
                assert (total.relation, set(total.scope)) == ("replace_values", set.intersection(*protected))
            else:
                assert total.relation != "replace_values"


class TestGuarantee:
    def test_scope_is_never_empty(self):
        with pytest.raises(ValueError, match="`scope` must name the protected columns"):
            PrivacyGuarantee(1.0, relation="replace_values")
        record = make_guarantee(1.0, "replace_values", "a").to_dict() | {"scope": []}
        with pytest.raises(ValueError, match="`scope` must name"):
            PrivacyGuarantee.from_json(json.dumps(record))
        assert not Draft202012Validator(SCHEMA).is_valid(record)
        text = str(make_guarantee(1.0, "replace_values", "a"))
        assert text.endswith("replacing the values of a in one record, no other column is protected")

    @pytest.mark.parametrize(
        ("relation", "columns", "message"),
        [
            ("replace", None, "does not cover whole records, because it may"),
            ("add_remove", None, "does not cover whole records"),
            ("replace_values", ["a", "c"], "for the values of a, b does not cover the values of c"),
            ("replace_values", [], "`columns` must name"),
            ("replace", ["a"], "`columns` require relation='replace_values'"),
        ],
    )
    def test_errors_of_refused_conversions_name_the_reason(self, relation, columns, message):
        with pytest.raises(ValueError, match=message):
            make_guarantee(1.0, "replace_values", "a", "b").to(relation, columns=columns)


OF_A = {"relation": "replace_values", "columns": ["a"]}


class TestLedger:
    @pytest.mark.parametrize(
        "names", [("reports of a", "a by b"), ("count of b", "a beside b"), ("a and b", "reports of records")]
    )
    def test_spent_bounds_the_loss_of_the_columns_of_the_ledger(self, names, make):
        ledger = make(epsilon=20, **OF_A)
        channels = []
        for name in names:
            channel, stated = MECHANISMS[name]
            ledger.charge(stated, name)
            channels.append(channel)
        assert holds(together(*channels), make_guarantee(ledger.spent.epsilon, "replace_values", "a"))

    @pytest.mark.parametrize("relation", [None, "replace", "add_remove"])
    def test_ledger_of_whole_records_refuses_with_the_reason(self, relation, make):
        ledger = make(epsilon=20, relation=relation)
        _, stated = MECHANISMS["a beside b"]
        for charge in (ledger.charge, ledger.check):
            with pytest.raises(ValueError, match=r"protects the values of a only, .*columns=\['a'\]"):
                charge(stated, "release")
        assert ledger.spent == (0, 0)
        assert ledger.relation == relation
