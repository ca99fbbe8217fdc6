"""A program with processes that use ledgers and are killed; pytest has too many threads to fork.

`python ledger_users.py FOLDER KILLS SEED [ADDRESS]` lets eight processes at once open a ledger that does not exist yet,
charge it and release, until all have been killed; then eight more on a new ledger. Half of the processes are killed at
any moment, the other half after they have released, or found the budget used up. So each ledger has releases, however
slowly the machine runs these processes.

ADDRESS is the address of a ledger in PostgreSQL, in which `{number}` is the number of the round. In the middle of each
round, the program prints "restart", and waits for a line after the server was killed and has started again.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import BinaryIO

import pandas as pd
import pytest

from skdp import BudgetExceeded, PrivacyGuarantee, PrivacyLedger, RandomizedResponseEncoder

PROCESSES = 8
EPSILON, BUDGET = 0.1, 3.0


class NamedLedger(PrivacyLedger):
    """Records the releases that it was charged for."""

    def charge(self, guarantee: PrivacyGuarantee, what: str) -> None:
        super().charge(guarantee, self.release)


def check_is_killed(error: OSError) -> None:
    """Raise an error again unless its reason is that the server was killed or starts."""
    if not re.search("cannot be reached|connection was lost|the error 57P0", str(error)):
        raise error


def open_ledger(path: str) -> NamedLedger:
    """Open or create a ledger, as soon as its server answers."""
    while True:
        try:
            return NamedLedger(BUDGET, path=path)
        except OSError as error:
            check_is_killed(error)
            time.sleep(0.01)


def release_until_killed(
    folder: str, path: str, encoder: RandomizedResponseEncoder, frame: pd.DataFrame, progress: BinaryIO
) -> None:
    """Release again and again; `progress` gets a byte after each release, and when the budget is used up."""
    ledger = open_ledger(path)
    fitted = encoder.set_params(ledger=ledger).fit(frame)
    with open(f"{folder}/releases", "ab", buffering=0) as releases:
        for number in itertools.count():
            ledger.release = f"{os.getpid()}-{number}"
            try:
                reports = fitted.transform(frame)
            except BudgetExceeded:
                progress.write(b".")
                signal.pause()
            except OSError as error:
                check_is_killed(error)  # then the charge may count
                continue
            releases.write(f"{ledger.release} {''.join(reports['a'])}\n".encode())
            progress.write(b".")


def check_round(folder: Path, ledger: PrivacyLedger, n_lost: int) -> None:
    """Check that each release has its charge, and that at most `n_lost` charges have no release."""
    charged = ledger.charges()["title"].tolist()
    released = [line.split()[0] for line in folder.joinpath("releases").read_text().splitlines()]
    # Half of the processes have released, or have found a budget with at most `n_lost` charges without a release.
    assert len(released) >= PROCESSES // 2
    assert len(set(released)) == len(released)
    assert set(released) <= set(charged)
    assert len(charged) <= min(30, len(released) + n_lost)
    assert ledger.spent.epsilon == pytest.approx(0.1 * len(charged))
    for _ in range(30 - len(charged)):
        ledger.charge(PrivacyGuarantee(0.1), "afterwards")
    with pytest.raises(BudgetExceeded):
        ledger.charge(PrivacyGuarantee(1e-300), "too much")


def main(folder: str, kills: str, seed: str, address: str = "") -> None:
    drawn, frame = random.Random(int(seed)), pd.DataFrame({"a": ["x", "y"]})
    encoder = RandomizedResponseEncoder(EPSILON, categories={"a": ["x", "y"]})
    encoder.fit_transform(frame)  # the slow first run happens here
    for round_number in range(-(-int(kills) // PROCESSES)):
        os.mkdir(f"{folder}/{round_number}")
        path = address.format(number=round_number) or f"{folder}/{round_number}/ledger.sqlite"
        children = []
        for _ in range(PROCESSES):
            read_end, write_end = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    with open(write_end, "wb", buffering=0) as progress:
                        release_until_killed(f"{folder}/{round_number}", path, encoder, frame, progress)
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(1)
            os.close(write_end)
            children.append((child, read_end))
        longest = drawn.choice([0.05, 0.2])
        for number, (child, progress) in enumerate(drawn.sample(children, PROCESSES)):
            if address and number == PROCESSES // 2:
                print("restart", flush=True)
                sys.stdin.readline()
            if number % 2:
                os.read(progress, 1)
            time.sleep(drawn.uniform(0, longest / PROCESSES))
            os.kill(child, signal.SIGKILL)
            os.close(progress)
        print(*[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child, _ in children])


if __name__ == "__main__":
    main(*sys.argv[1:])
