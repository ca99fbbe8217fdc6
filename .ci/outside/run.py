"""Run the checks by outside tools and write a log of each: the versions, its table, and the number of findings."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
LOGS = ROOT / "benchmarks" / "results" / "outside"
TOOLS = [
    *("dp-recorder", "dp-accounting", "riskcal", "opendp", "sdmetrics"),
    *("numpy", "scikit-learn"),
]
CHECKS = [
    *("privacy_maps", "accountants", "record_replay", "samplers"),
    "synthetic_quality",
]


def run_check(name: str) -> bool:
    """Run a check, and write its log; return True if it found nothing."""
    commit = subprocess.check_output(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, text=True
    ).strip()
    versions = ", ".join(f"{tool} {version(tool)}" for tool in TOOLS)
    heading = f"{name}: skdp {commit}, {datetime.now(UTC):%Y-%m-%d}, {versions}\n"
    command = [sys.executable, "-W", "ignore", str(FOLDER / f"{name}.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    log = heading + done.stdout
    if done.returncode:
        log += f"exit status {done.returncode}\n{done.stderr[-2_000:]}"
    LOGS.mkdir(parents=True, exist_ok=True)
    (LOGS / f"{name}.txt").write_text(log)
    print(log)
    return done.returncode == 0


if __name__ == "__main__":
    results = [run_check(name) for name in sys.argv[1:] or CHECKS]
    sys.exit(not all(results))
