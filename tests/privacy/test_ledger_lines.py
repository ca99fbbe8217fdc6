"""Nothing in a ledger's file is believed that a ledger would not have written, and a killed process breaks nothing."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

from skdp import PrivacyGuarantee, PrivacyLedger
from skdp.privacy.ledger._lines import HEAD_SIZE, beginning, digest_of, head
from skdp.privacy.ledger._lines import _signed as signed

ONE = PrivacyGuarantee(1)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = PrivacyLedger(path, epsilon=5, delta=1e-6)
    for what in ("first", "second", "third"):
        ledger.charge(ONE, what)
    return path


def edited(number, old, new):
    def edit(lines):
        assert old in lines[number]
        lines[number] = lines[number].replace(old, new)

    return edit


EDITS = {
    "a smaller charge": edited(3, b'"epsilon": 1.0', b'"epsilon": 0.1'),
    "a negative charge": edited(3, b'"epsilon": 1.0', b'"epsilon": -9.0'),
    "a larger budget": edited(1, b"5.0", b"500.0"),
    "another name": edited(2, b"first", b"frist"),
    "a charge less": lambda lines: lines.pop(3),
    "the first one less": lambda lines: lines.pop(2),
    "the last one less": lambda lines: lines.pop(4),
    "all less": lambda lines: lines.__delitem__(slice(2, None)),
    "another order": lambda lines: lines.insert(2, lines.pop(3)),
    "one twice": lambda lines: lines.append(lines[-1]),
    "no budget": lambda lines: lines.pop(1),
    "no first line": lambda lines: lines.pop(0),
    "fewer counted": edited(0, b" 3,", b" 2,"),
    "more counted": edited(0, b" 3,", b" 9,"),
    "none counted": edited(0, b" 3,", b" 0,"),
    "not JSON": lambda lines: lines.append(b"age,sex\n"),
    "no text": lambda lines: lines.append(b"\xff\xfe\n"),
    "an empty line": lambda lines: lines.append(b"\n"),
}


AFTER_A_CRASH = ("fewer counted", "none counted")
"""The count may be behind; who has read the lines knows better, and only for others they do not belong together."""


@pytest.mark.parametrize(
    ("known", "name"),
    [(False, name) for name in EDITS] + [(True, name) for name in EDITS if name not in AFTER_A_CRASH],
)
def test_what_was_changed_is_evident(path, known, name):
    ledger, edit = PrivacyLedger(path), EDITS[name]
    lines = path.read_bytes().splitlines(keepends=True)
    edit(lines)
    path.write_bytes(b"".join(lines))
    with pytest.raises(ValueError, match=r"is no ledger, or not as it was written: .*; nothing was released"):
        ledger.report() if known else PrivacyLedger(path)


def rewritten(path, budget=None, **changes):
    """Change the second charge, with all hashes as a ledger would have them."""
    first, *charges = [json.loads(line) for line in path.read_text().splitlines()][1:]
    charges[1] |= changes
    lines, previous = [], ""
    for record in ({"budget": first["budget"] | (budget or {})}, *charges):
        record.pop("hash", None)
        lines.append(signed(record, previous))
        previous = digest_of(lines[-1])
    path.write_bytes(head(len(charges), previous) + b"".join(lines))


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": -1.0},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"epsilon": "1"},
        {"epsilon": None},
        {"epsilon": True},
        {"epsilon": [1.0]},
        {"epsilon": 10**400},
        {"delta": -1e-7},
        {"delta": 0.1},
        {"relation": "add_remove"},
        {"relation": None},
        {"epsilon": 4.5},  # more than was left
        {"budget": {"epsilon": -5.0}},
        {"budget": {"epsilon": 2.0}},
        {"budget": {"delta": 1.0}},
        {"budget": {"relation": "swap"}},
        {"budget": None} | {"budget": {"epsilon": None}},
    ],
    ids=str,
)
def test_what_no_ledger_would_have_written_is_not_believed(path, changes):
    rewritten(path)
    assert PrivacyLedger(path).spent == (3, 0)
    rewritten(path, **changes)
    with pytest.raises(ValueError, match="is no ledger, or not as it was written"):
        PrivacyLedger(path)


@pytest.mark.parametrize("value", ["1E-9999999999999999999999", "[" * 10**5 + "]" * 10**5], ids=["small", "deep"])
def test_what_json_cannot_read_is_named(path, value):
    previous = digest_of(path.read_bytes().splitlines(keepends=True)[-1])
    body = f'{{"epsilon": {value}, "delta": 0.0, "relation": "replace"'
    digest = hashlib.sha256((previous + body).encode()).hexdigest()
    with path.open("a") as lines:
        lines.write(f'{body}, "hash": "{digest}"}}\n')
    with pytest.raises(ValueError, match="its line 6 cannot be read; nothing was released"):
        PrivacyLedger(path)


def test_a_later_version_is_named(path):
    path.write_bytes(path.read_bytes().replace(b'"skdp_ledger": 1', b'"skdp_ledger": 2'))
    with pytest.raises(ValueError, match="made by a later version"):
        PrivacyLedger(path)


def test_a_file_that_was_put_in_its_place_is_noticed(path, tmp_path):
    """An older copy, or another ledger of the same budget."""
    older = path.read_bytes()
    ledger = PrivacyLedger(path)
    ledger.charge(ONE, "fourth")
    newer = path.read_bytes()
    other = PrivacyLedger(tmp_path / "other.jsonl", epsilon=5, delta=1e-6)
    for _ in range(4):
        other.charge(ONE, "other")
    for content in (older, other.path.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="lines that were read before have changed, or are missing"):
            ledger.charge(ONE, "fifth")
    path.write_bytes(newer)
    ledger.charge(ONE, "fifth")


def test_a_process_may_be_killed_at_every_byte_of_a_charge(path):
    before = path.read_bytes()
    PrivacyLedger(path).charge(ONE, "fourth")
    after = path.read_bytes()
    assert len(after) > len(before)
    for size in range(len(before), len(after) + 1):
        path.write_bytes(before[:HEAD_SIZE] + after[HEAD_SIZE:size])
        ledger = PrivacyLedger(path)
        whole = size == len(after)
        assert ledger.spent == (3 + whole, 0)
        if size % 25 and not whole:
            continue
        ledger.charge(ONE, "next")
        names = ["first", "second", "third", *["fourth"] * whole, "next"]
        assert PrivacyLedger(path).report()["what"].tolist() == names


def test_a_process_may_be_killed_while_it_makes_a_ledger(path, tmp_path):
    """Nothing was charged then; the file is made again if it is empty, and refused otherwise."""
    from skdp.privacy.ledger._book import Budget

    content = beginning(Budget(5.0, 0.0, None))
    for size in range(len(content)):
        torn = tmp_path / "torn.jsonl"
        torn.write_bytes(content[:size])
        if size:
            with pytest.raises(ValueError, match="is no ledger"):
                PrivacyLedger(torn, epsilon=5)
        else:
            assert PrivacyLedger(torn, epsilon=5).remaining() == (5, 0)
