"""A program whose processes use one ledger; the tests run it, as a test's own process has too many threads to fork."""

from __future__ import annotations

import functools
import itertools
import json
import os
import random
import signal
import sys
import time

import pandas as pd

from skdp import BudgetExceeded, PrivacyGuarantee, PrivacyLedger, RandomizedResponseEncoder


def fork(work):
    """Start a process for one function; whatever it raises becomes its exit code."""
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        code = work() or 0
    except BudgetExceeded:
        code = 1
    finally:
        os._exit(code)


def wait(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def race(folder, runs):
    """Let eight processes begin at once, in each run on a ledger that none has made yet. Print their exit codes."""
    codes = []
    for run in range(int(runs)):
        reading, writing = os.pipe()

        def spend(path=f"{folder}/{run}.jsonl", reading=reading, writing=writing):
            os.close(writing)
            os.read(reading, 1)  # returns when everybody can begin
            PrivacyLedger(path, epsilon=3).charge(PrivacyGuarantee(1), "process")

        children = [fork(spend) for _ in range(8)]
        os.close(reading)
        os.close(writing)
        codes.append([wait(child) for child in children])
    print(json.dumps(codes))


class NamedLedger(PrivacyLedger):
    """Writes down which release it was charged for."""

    def charge(self, guarantee, what):
        super().charge(guarantee, self.release)


def kill(folder, times, seed):
    """Kill processes that open, charge and release, at random moments; every other pair may first release once."""
    drawn, frame = random.Random(int(seed)), pd.DataFrame({"a": ["x", "y"]})
    encoder = RandomizedResponseEncoder(0.1, categories={"a": ["x", "y"]})
    encoder.fit_transform(frame)  # what is slow the first time happens here

    def release(begun):
        ledger = NamedLedger(f"{folder}/ledger.jsonl", epsilon=1e6)
        fitted = encoder.set_params(ledger=ledger).fit(frame)
        with open(f"{folder}/releases", "ab", buffering=0) as releases:
            for number in itertools.count():
                ledger.release = f"{os.getpid()}-{number}"
                reports = fitted.transform(frame)
                releases.write(f"{ledger.release} {''.join(reports['a'])}\n".encode())
                os.write(begun, b".")

    for pair in range(int(times) // 2):
        reading, writing = os.pipe()
        children = [fork(functools.partial(release, writing)) for _ in range(2)]
        if pair % 2:
            os.read(reading, 1)
        for child in children:
            time.sleep(drawn.uniform(0, 0.06))
            os.kill(child, signal.SIGKILL)
        print(*map(wait, children))
        os.close(reading)
        os.close(writing)


if __name__ == "__main__":
    folder, runs, times, seed = sys.argv[1:]
    race(folder, runs)
    kill(folder, times, seed)
