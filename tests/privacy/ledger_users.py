"""A program whose processes use ledgers and are killed; pytest itself has too many threads to fork.

`python ledger_users.py FOLDER KILLS SEED` lets eight processes at once open a ledger that none has made yet, charge it
and release, until all have been killed; then eight more on a new ledger. Half of the processes are killed at any
moment, the other half after they have released, or found the budget used up. So each ledger has releases, however
slowly the machine runs these processes.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import time
from typing import BinaryIO

import pandas as pd

from skdp import BudgetExceeded, PrivacyGuarantee, PrivacyLedger, RandomizedResponseEncoder

PROCESSES = 8
EPSILON, BUDGET = 0.1, 3.0


class NamedLedger(PrivacyLedger):
    """Writes down which release it was charged for."""

    def charge(self, guarantee: PrivacyGuarantee, what: str) -> None:
        super().charge(guarantee, self.release)


def release_until_killed(
    folder: str, encoder: RandomizedResponseEncoder, frame: pd.DataFrame, progress: BinaryIO
) -> None:
    """Release again and again; `progress` gets a byte after each release, and when the budget is used up."""
    ledger = NamedLedger(BUDGET, path=f"{folder}/ledger.sqlite")
    fitted = encoder.set_params(ledger=ledger).fit(frame)
    with open(f"{folder}/releases", "ab", buffering=0) as releases:
        for number in itertools.count():
            ledger.release = f"{os.getpid()}-{number}"
            try:
                reports = fitted.transform(frame)
            except BudgetExceeded:
                progress.write(b".")
                signal.pause()
            releases.write(f"{ledger.release} {''.join(reports['a'])}\n".encode())
            progress.write(b".")


def main(folder: str, kills: int, seed: int) -> None:
    drawn, frame = random.Random(seed), pd.DataFrame({"a": ["x", "y"]})
    encoder = RandomizedResponseEncoder(EPSILON, categories={"a": ["x", "y"]})
    encoder.fit_transform(frame)  # what is slow the first time happens here
    for round_number in range(-(-kills // PROCESSES)):
        os.mkdir(f"{folder}/{round_number}")
        children = []
        for _ in range(PROCESSES):
            read_end, write_end = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    with open(write_end, "wb", buffering=0) as progress:
                        release_until_killed(f"{folder}/{round_number}", encoder, frame, progress)
                finally:
                    os._exit(1)
            os.close(write_end)
            children.append((child, read_end))
        longest = drawn.choice([0.05, 0.2])
        for number, (child, progress) in enumerate(drawn.sample(children, PROCESSES)):
            if number % 2:
                os.read(progress, 1)
            time.sleep(drawn.uniform(0, longest / PROCESSES))
            os.kill(child, signal.SIGKILL)
            os.close(progress)
        print(*[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child, _ in children])


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
