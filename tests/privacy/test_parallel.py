"""Releases from parts of the rows: the ledger is charged for the row that loses most, and never less."""

from __future__ import annotations

import contextvars
import copy
import json
import pickle
import random
import subprocess
import sys
import threading
from fractions import Fraction
from functools import partial
from importlib.resources import files

import numpy as np
import pandas as pd
import polars
import pytest
from jsonschema import Draft202012Validator

from skdp import (
    BudgetExceeded,
    DPMean,
    PrivacyGuarantee,
    PrivacyLedger,
    RandomizedResponseEncoder,
    RapporEncoder,
)
from skdp.engines import privatize
from skdp.privacy import GaussianLoss, gaussian_epsilon
from skdp.privacy.ledger._account import Account, Budget
from skdp.privacy.ledger._ledger import RowSums
from tests.conftest import each
from tests.privacy.test_adversary import answer, best_delta, threshold

TABLE = pd.DataFrame({"a": np.arange(40.0)})
SCHEMA = json.loads(files("skdp.privacy").joinpath("record.schema.json").read_text(encoding="utf-8"))


def test_a_charge_that_is_refused_counts_nothing(make):
    ledger = make(epsilon=1.0)
    with ledger.parallel() as parts:
        with parts.rows([0]):
            ledger.charge(PrivacyGuarantee(0.7), "first")
            with pytest.raises(BudgetExceeded, match=r"asks for epsilon 0\.4; the ledger has 0\.3 of 1\.0 left"):
                ledger.charge(PrivacyGuarantee(0.4), "second")
            ledger.check(PrivacyGuarantee(0.3), "second")
        with parts.rows([1]):
            ledger.check(PrivacyGuarantee(1.0), "other rows")
            ledger.charge(PrivacyGuarantee(0.9), "other rows")
        assert ledger.spent.epsilon == 0.9
        with parts.rows([0, 1]):
            ledger.charge(PrivacyGuarantee(0.1), "both")
    assert ledger.spent.epsilon == 1


def random_guarantee(drawn, budget):
    if "mu" in budget or ("rho" in budget and drawn.random() < 0.5):
        mu = drawn.choice([0.05, 0.1])
        return PrivacyGuarantee(gaussian_epsilon(mu, 1e-6), 1e-6, rho=mu**2 / 2, losses=(GaussianLoss(mu),))
    return PrivacyGuarantee(drawn.choice([0.1, 0.25]), drawn.choice([0.0, 1e-8]) if "delta" in budget else 0.0)


@each("budget", [{"epsilon": 100.0, "delta": 1e-2}, {"rho": 30.0}, {"mu": 8.0}])
@each("seed", range(6))
def test_sums_are_the_largest_over_all_rows(budget, seed):
    """Against a ledger for each row by itself, for random releases from random rows."""
    drawn = random.Random(seed)
    ledger = PrivacyLedger(**budget, relation="replace")
    alone = {row: PrivacyLedger(**budget, relation="replace") for row in range(12)}
    with ledger.parallel() as parts:
        for _ in range(25):
            guarantee, chosen = random_guarantee(drawn, budget), list(alone)
            if drawn.random() < 0.2:
                ledger.charge(guarantee, "all")
            else:
                chosen = [row for row in alone if drawn.random() < 0.4]
                with parts.rows(chosen):
                    ledger.charge(guarantee, "some")
            for row in chosen:
                alone[row].charge(guarantee, "release")
    spent = pd.DataFrame([one.balance().loc["spent"] for one in alone.values()])
    assert ledger.balance().loc["spent"].to_list() == pytest.approx(spent.max().to_list(), rel=1e-12)


class State:
    """An account and the sums of rows, of which equal ones are one state."""

    def __init__(self, account, rows, key):
        self.account, self.rows, self.key = account, rows, key

    def __eq__(self, other):
        return self.key == other.key

    def __hash__(self):
        return hash(self.key)


def state_of(account, rows):
    each_row = tuple(rows.sums[group] for group in [*rows.groups.tolist(), 0, 0][:2])
    return State(account, rows, (account.sums, each_row, rows.largest))


def by_parts(charged_for):
    """Return how a ledger in a block admits (guarantee, rows), with the rows that are charged for."""

    def admit(state, option):
        guarantee, positions = option
        positions = np.array(charged_for(positions), np.intp)
        charge = state.account.charge_of("charge", guarantee, "replace")
        rows = state.rows.after(positions, charge.sums)
        try:
            account = state.account.admit(rows.charge_of(charge, state.rows, 1))
        except BudgetExceeded:
            return None
        return state_of(account, rows)

    return admit


def best_against(options, admit, aim, **budget):
    """Return the largest delta at epsilon of row 0, over all adaptive choices of releases and of rows."""
    # A release without row 0 has the same law with both values, of which only the ledger knows.
    nothing = [(Fraction(1), Fraction(1))]
    choices = [
        ((guarantee, positions), results if 0 in positions else nothing)
        for guarantee, results in options
        for positions in ((0,), (1,), (0, 1))
    ]
    begin = state_of(Account.of(Budget.checked(**budget, relation="replace")), RowSums.of_no_charge())
    return best_delta(begin, choices, admit, aim)


OPTIONS = [answer("5/4"), answer("3/2"), threshold("1/50")]
BUDGET = {"epsilon": 1.0, "delta": 0.04}


@pytest.mark.parametrize("options", [OPTIONS[1:], pytest.param(OPTIONS, marks=pytest.mark.long)])
@each("budget", [BUDGET, {"rho": 0.1}])
def test_no_choice_of_rows_exceeds_the_budget(options, budget):
    reached = best_against(options, by_parts(list), 1.0, **budget)
    assert reached <= Fraction(0.04)


def test_other_threads_count_for_all_rows():
    ledger = PrivacyLedger(epsilon=10.0)

    def charge():
        ledger.charge(PrivacyGuarantee(0.5), "a thread")

    def run(works):
        threads = [threading.Thread(target=work) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with ledger.parallel() as parts:
        for rows in ([0], [1]):
            with parts.rows(rows):
                run([charge])
    assert ledger.spent.epsilon == 1.0
    # One that is given the context is of the same part; many at once lose no charge.
    with ledger.parallel() as parts:
        for rows in ([0], [1]):
            with parts.rows(rows):
                run([partial(contextvars.copy_context().run, charge) for _ in range(8)])
    assert ledger.spent.epsilon == 1.0 + 8 * 0.5


FORK = """
import os, sys
from skdp import PrivacyGuarantee, PrivacyLedger

ledger = PrivacyLedger(sys.argv[1], epsilon=10.0, relation="replace")
with ledger.parallel() as parts, parts.rows([0]):
    ledger.charge(PrivacyGuarantee(0.5), "parent")
    child = os.fork()
    if child == 0:
        try:
            ledger.charge(PrivacyGuarantee(0.5), "child")
        except RuntimeError:
            os._exit(7)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), ledger.spent.epsilon)
"""


@pytest.mark.skipif(not hasattr(sys, "getdlopenflags"), reason="needs fork")
def test_forked_processes_have_no_part_in_a_block(tmp_path):
    """A child would not see what its brothers charge: each would take the largest part as paid."""
    program = [sys.executable, "-c", FORK, str(tmp_path / "ledger.jsonl")]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["7", "0.5"], done.stderr


def test_a_context_that_outlives_its_rows_charges_nothing():
    ledger = PrivacyLedger(epsilon=10.0)
    with ledger.parallel() as parts:
        with parts.rows([0]):
            context = contextvars.copy_context()
        with pytest.raises(RuntimeError, match="not open any more"):
            context.run(ledger.charge, PrivacyGuarantee(0.5), "late")
        # Its release is not from the rows that are open now.
        with parts.rows([1]), pytest.raises(RuntimeError, match="not open any more"):
            context.run(ledger.charge, PrivacyGuarantee(0.5), "late")
    with pytest.raises(RuntimeError, match="has ended"):
        context.run(ledger.charge, PrivacyGuarantee(0.5), "late")
    assert ledger.spent.epsilon == 0


def test_files_and_records_know_what_was_charged(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.jsonl", epsilon=5.0, delta=1e-6)
    with ledger.parallel() as parts:
        for rows in ([0, 1], [1, 2], [3]):
            with parts.rows(rows):
                ledger.charge(PrivacyGuarantee(0.1, scope=("a",)), "answer")
    for again in (PrivacyLedger(ledger.path), PrivacyLedger.from_json(ledger.to_json())):
        assert again.balance().equals(ledger.balance())
    assert ledger.balance().loc["spent", "rho"] < 0.02
    record = ledger.to_dict()
    Draft202012Validator(SCHEMA).validate(record)
    assert record["charges"][0]["added"]["rho"] == "0.005"
    for wrong in ("-1", "nan", None):
        changed = json.loads(ledger.to_json())
        changed["charges"][0]["added"]["rho"] = wrong
        with pytest.raises(ValueError, match=r"added|budget|sum"):
            PrivacyLedger.from_json(json.dumps(changed))
    ledger.path.write_text(ledger.path.read_text().replace('"rho": "0.005"', '"rho": "0.000"', 1))
    with pytest.raises(ValueError, match="not what was written"):
        PrivacyLedger(ledger.path)


def test_what_is_refused():
    ledger = PrivacyLedger(epsilon=1.0)
    plan = ledger.plan([PrivacyGuarantee(0.1)], "plan")
    with pytest.raises(ValueError, match="moves the positions of others"):
        PrivacyLedger(epsilon=1.0, relation="add_remove").parallel()
    for other in (plan, PrivacyLedger.from_json(ledger.to_json())):
        with pytest.raises(TypeError, match="not of a plan or a record"):
            other.parallel()
    persons = PrivacyGuarantee(0.1, relation="add_remove", trust="central", max_rows_per_person=3)
    with ledger.parallel() as parts:
        with parts.rows([0]):
            with pytest.raises(ValueError, match="one person with up to 3 records, which may be in several parts"):
                ledger.charge(persons, "persons")
            with pytest.raises(RuntimeError, match="a plan is for all rows"):
                ledger.plan([PrivacyGuarantee(0.1)], "plan")
            with pytest.raises(RuntimeError, match="other rows are open"), ledger.parallel().rows([1]):
                pass
        for wrong in ([0, 0], [-1], [2**31]):
            with pytest.raises(ValueError, match="positions must be"), parts.rows(wrong):
                pass
        for wrong in ([0.5], [[0], [1]], 3, [True, 2]):
            with pytest.raises(TypeError, match="positions must be whole numbers"), parts.rows(wrong):
                pass
    with pytest.raises(RuntimeError, match="has ended"), parts.rows([0]):
        pass
    assert ledger.spent.epsilon == 0.1


def test_forms_of_positions():
    """Of a block there is no copy, which would charge for the same rows again."""
    ledger = PrivacyLedger(epsilon=2.0)
    with ledger.parallel() as parts:
        for rows in (np.array([True, False, True]), range(1, 2), np.array([3], np.uint8), [], pd.Index([4, 5])):
            with parts.rows(rows):
                ledger.charge(PrivacyGuarantee(0.5), "release")
        for make_copy in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied"):
                make_copy(parts)
    assert ledger.spent.epsilon == 0.5
    assert ledger.report()["what"].tolist() == [f"release of {n} rows" for n in (2, 1, 1, 0, 2)]


ROWS = pd.DataFrame({"a": np.arange(40) % 4})


def encode(ledger, rows):
    RandomizedResponseEncoder(0.05, categories={"a": [0, 1, 2, 3]}, ledger=ledger).fit_transform(rows)


def average_with_missing(ledger, rows):
    numbers = rows.astype(float)
    numbers.iloc[:2] = np.nan
    DPMean(0.05, bounds=(0, 4), ledger=ledger).fit(numbers)


@each("release", [encode, average_with_missing])
def test_a_release_of_other_rows_than_named_is_an_error(release):
    """Those of a part, but the release reads more or fewer: the ledger would count too little for the others."""
    ledger = PrivacyLedger(epsilon=10.0, relation="replace")
    parts = ledger.parallel()
    for rows in (ROWS, ROWS[8:], ROWS[:7]):
        with parts.rows(range(8)), pytest.raises(ValueError, match=f"given {len(rows)} rows, .* names 8 positions"):
            release(ledger, rows)
    assert ledger.spent.epsilon == 0
    assert len(ledger.report()) == 0
    with parts.rows(range(8)):
        release(ledger, ROWS[:8])
    assert ledger.spent.epsilon > 0
    release(ledger, ROWS)  # outside, any number
    with ledger.parallel() as parts, parts.rows([0]):
        release(PrivacyLedger(epsilon=10.0), ROWS)  # nor is it said of another ledger


def test_what_does_not_know_its_rows_is_refused():
    ledger = PrivacyLedger(epsilon=10.0, relation="replace")
    encoder = RandomizedResponseEncoder(0.5, categories={"a": [0, 1, 2, 3]}, ledger=ledger).fit(ROWS)
    mean = DPMean(0.1, bounds=(0, 4), ledger=ledger)
    lazy = polars.from_pandas(ROWS).lazy()
    with ledger.parallel() as parts, parts.rows(range(40)):
        for release in (
            lambda: mean.fit(lazy),
            lambda: privatize(lazy, encoder),
            encoder.charge,
            encoder.check_budget,
        ):
            with pytest.raises(ValueError, match="does not know its number of rows"):
                release()
        assert ledger.spent.epsilon == 0
        encoder.charge(n_rows=40)
        ledger.charge(PrivacyGuarantee(0.5), "by hand")  # for the named rows, whatever it reads
    assert ledger.spent.epsilon == 1.0


def test_permanent_reports_of_a_part_do_not_pay_for_those_of_others():
    """A charge for constant values is made once, but of a part of the rows only these have paid."""
    ledger = PrivacyLedger(epsilon=100.0, relation="replace")
    words = pd.DataFrame({"a": [f"word {i}" for i in range(8)]})
    encoder = RapporEncoder(1.0, secret_key=b"0" * 32, constant_values=True, ledger=ledger).fit(words)
    once = encoder.permanent_guarantee_.epsilon
    with ledger.parallel() as parts:
        for rows in (range(4), range(4, 8)):
            with parts.rows(rows):
                encoder.transform(words.iloc[rows], record_id=list(rows))
        with parts.rows(range(4, 8)):
            ledger.charge(PrivacyGuarantee(0.5), "and of the second part")
    assert ledger.spent.epsilon == pytest.approx(once + 0.5)
    encoder.transform(words, record_id=list(range(8)))  # outside: all rows, and from then on none
    encoder.transform(words, record_id=list(range(8)))
    assert ledger.spent.epsilon == pytest.approx(2 * once + 0.5)


def test_rows_of_two_blocks_are_not_open_at_once():
    """Charges counted for the first block only, so that the row of the second was free."""
    ledger = PrivacyLedger(epsilon=1.0)
    with ledger.parallel() as first, ledger.parallel() as second:
        with first.rows([0]), pytest.raises(RuntimeError, match="other rows are open"), second.rows([1]):
            ledger.charge(PrivacyGuarantee(0.5), "answer")
        with second.rows([1]):
            ledger.charge(PrivacyGuarantee(0.5), "answer")
    assert ledger.spent.epsilon == 0.5
