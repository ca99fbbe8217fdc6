"""What one ledger is: one file under all its names, a book that believes nothing, and an answer at every moment."""

from __future__ import annotations

import os
import signal
import time

import pytest

from skdp import BudgetExceeded, PrivacyGuarantee, PrivacyLedger
from skdp.privacy.ledger._book import Account
from tests.conftest import each

ONE = PrivacyGuarantee(1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


def test_a_file_with_two_names_is_refused(path):
    ledger = PrivacyLedger(path, epsilon=2)
    ledger.charge(ONE, "first")
    other = path.with_name("other.jsonl")
    os.link(path, other)
    for use in (lambda: PrivacyLedger(other), lambda: PrivacyLedger(path), lambda: ledger.charge(ONE, "second")):
        with pytest.raises(ValueError, match=r"has 2 names \(hard links\)"):
            use()
    other.unlink()
    assert ledger.spent == (1, 0)


def test_a_file_behind_symbolic_links_is_one_ledger(tmp_path):
    """Its own link, and one of its folder."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "again").symlink_to(folder)
    (tmp_path / "link.jsonl").symlink_to(folder / "ledger.jsonl")
    ledgers = [
        PrivacyLedger(folder / "ledger.jsonl", epsilon=3),
        PrivacyLedger(tmp_path / "again" / "ledger.jsonl"),
        PrivacyLedger(tmp_path / "link.jsonl"),
    ]
    for ledger in ledgers:
        assert ledger.path == (folder / "ledger.jsonl").resolve()
        ledger.charge(ONE, "charge")
    for ledger in ledgers:
        with pytest.raises(BudgetExceeded):
            ledger.charge(ONE, "more")
    assert [file.name for file in folder.iterdir()] == ["ledger.jsonl"]  # nothing else that goes by a name


def test_the_lock_is_on_the_file_and_not_on_its_name(path, monkeypatch):
    """Another process may have locked it under any name, as in a bind mount."""
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr("skdp.privacy.ledger._file_book._PATIENCE", 0.02)
    ledger, other = PrivacyLedger(path, epsilon=2), path.with_name("other")
    os.link(path, other)
    with other.open("rb") as file:
        other.unlink()
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="nothing was released: another process has locked it"):
            ledger.charge(ONE, "release")
    ledger.charge(ONE, "release")


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_signal_handler_may_show_a_ledger_during_a_charge(path, kind):
    ledger = PrivacyLedger(epsilon=3) if kind == "memory" else PrivacyLedger(path, epsilon=3)
    twin = ledger if kind == "memory" else PrivacyLedger(path)
    ledger.charge(ONE, "first")
    shown = []

    class Interrupted(PrivacyGuarantee):
        def to(self, relation):
            signal.raise_signal(signal.SIGUSR1)
            raise ArithmeticError

    def handler(*_):
        shown.extend([repr(ledger), len(ledger.report()), repr(twin)])
        with pytest.raises(RuntimeError, match="is being charged"):
            twin.charge(ONE, "from the handler")

    before = signal.signal(signal.SIGUSR1, handler)
    begun = time.monotonic()
    try:
        with pytest.raises(ArithmeticError):
            ledger.charge(Interrupted(1), "second")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert time.monotonic() - begun < 5
    assert shown[0].endswith("spent=(1.0, 0.0))")
    assert shown[1] == 1
    ledger.charge(ONE, "second")
    assert ledger.spent == (2, 0)


def test_an_interrupt_leaves_no_charge_that_is_listed_and_not_counted(monkeypatch):
    ledger = PrivacyLedger(epsilon=3)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Account, "after", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.charge(ONE, "release")
    assert (len(ledger.report()), ledger.spent) == (0, (0, 0))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_charge_takes_no_longer_in_a_long_ledger(path, kind, monkeypatch):
    """Timed without the disk, and with slack: what grew was 3 ms after 1,000 charges in memory."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    ledger = PrivacyLedger(epsilon=1e6) if kind == "memory" else PrivacyLedger(path, epsilon=1e6)

    def cost(times):
        begun = time.process_time()
        for _ in range(times):
            ledger.charge(ONE, "charge")
        return (time.process_time() - begun) / times

    early = cost(50)
    cost(1_000)
    assert cost(50) < 3 * early + 3e-4


@each("nonsense", [1.0, None, "1", (1, 0)])
def test_what_is_no_guarantee_is_refused_naming_what_is_expected(nonsense):
    ledger = PrivacyLedger(epsilon=1)
    with pytest.raises(TypeError, match=rf"guarantee must be a PrivacyGuarantee, .*got {type(nonsense).__name__}"):
        ledger.charge(nonsense, "release")
    with pytest.raises(TypeError, match="what must be a str, got float"):
        ledger.charge(ONE, 1.0)
    assert ledger.spent == (0, 0)
