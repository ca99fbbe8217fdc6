"""Choose the cases of parametrized tests that quick runs leave out: ``python tests/choose_long_cases.py``.

All quick cases run for ten minutes, and the branches of skdp that each takes are recorded. A case that takes less than
`MIN_SECONDS` stays quick. Of the cases of one test, those with the most new branches per second stay, until none takes
a new one; a branch that more than `MAX_TESTS` tests take is not new, except in tests of guarantees. `long_cases.txt`
has the other cases.
"""

import re
import sqlite3
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import pytest

MIN_SECONDS = 0.03  # of a case with its branches recorded, which doubles its time
MAX_TESTS = 3
ROOT = Path(__file__).resolve().parent.parent
# Words in the names of tests of guarantees.
GUARANTEE = re.compile(
    "neighbor|sensitiv|cost|lose|loss|budget|guarantee|charge|replay|person|noise_covers"
    "|distinct|secure|private|leak|reveal|contract"
)


class Durations(Counter):
    """Adds up the seconds of each case."""

    def pytest_runtest_logreport(self, report):
        self[report.nodeid] += report.duration


def record_cases(folder):
    """Run all cases, and return the branches and the seconds of each."""
    seconds, settings = Durations(), folder / "coveragerc"
    settings.write_text(f"[run]\nbranch = true\nsource_pkgs = skdp\ndata_file = {folder / 'data'}\n", encoding="utf-8")
    options = ["-q", "-m", "not long", "--all-cases", "--assert=plain", "-p", "no:cacheprovider"]
    coverage = ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report=", "--cov-fail-under=0"]
    status = pytest.main([*options, *coverage, str(ROOT / "tests")], plugins=[seconds])
    if status != pytest.ExitCode.OK:
        raise SystemExit(status)
    branches = defaultdict(set)
    rows = "SELECT context, file_id, fromno, tono FROM arc JOIN context ON context_id = context.id"
    with sqlite3.connect(folder / "data") as data:
        for context, *branch in data.execute(rows):
            branches[context.rpartition("|")[0]].add(tuple(branch))  # The context is a case, "|", and its phase.
    return branches, seconds


def choose_quick(cases, branches, seconds, known):
    """Choose cases that take each branch except known ones; at least one."""
    left, chosen, rest = set().union(*(branches[case] for case in cases)) - known, [], sorted(cases)
    while rest and (left or not chosen):
        best = max(rest, key=lambda case: (len(branches[case] & left) + 1e-9) / (seconds[case] + 0.005))
        if chosen and not branches[best] & left:
            break
        chosen.append(best)
        rest.remove(best)
        left -= branches[best]
    return chosen


def choose_long(branches, seconds):
    """Choose the cases that quick runs leave out."""
    tests = defaultdict(list)
    for case in seconds:
        tests[case.partition("[")[0]].append(case)
    counts = Counter(branch for cases in tests.values() for branch in set().union(*(branches[case] for case in cases)))
    frequent = {branch for branch, count in counts.items() if count > MAX_TESTS}
    chosen = []
    for test, cases in tests.items():
        known = set() if GUARANTEE.search(test.partition("::")[2]) else frequent
        quick = choose_quick(cases, branches, seconds, known)
        chosen += [case for case in cases if case not in quick and seconds[case] >= MIN_SECONDS]
    return sorted(chosen)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        cases = choose_long(*record_cases(Path(folder)))
    (ROOT / "tests" / "long_cases.txt").write_text("".join(f"{case}\n" for case in cases), encoding="utf-8")
    sys.stdout.write(f"{len(cases)} cases are long\n")
