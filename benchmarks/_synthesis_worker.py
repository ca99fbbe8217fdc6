"""One synthesizer at work, in a process of its own, so that its memory and its CPU time are its own.

Runs in any environment that has NumPy and the synthesizer. The argument is a folder:
``job.json`` and the rows are read there, the synthetic rows and the costs are written there. Imports, reading and
writing are not timed.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import numpy as np

SYNTHESIZERS = {
    "mbi": "_synthesis_mbi",
    "dpmm": "_synthesis_dpmm",
    "private": "_synthesis_evolution",
}


def main() -> None:
    folder = Path(sys.argv[1])
    job = json.loads((folder / "job.json").read_text())
    resource.setrlimit(resource.RLIMIT_CPU, (job["limit"], job["limit"] + 5))
    library, algorithm = job["method"].split("-")
    module = import_module(SYNTHESIZERS.get(library, "_synthesis_own"))
    synthesizer = module.ALGORITHMS[algorithm](folder, job)

    times = [cpu_seconds()]
    synthesizer.fit()
    times.append(cpu_seconds())
    rows = synthesizer.sample()
    times.append(cpu_seconds())
    peak = peak_resident()  # before the rows are coded for the judge

    np.save(folder / "synthetic.npy", synthesizer.encode(rows))
    fit, sample = np.diff(times).tolist()
    costs = {"fit": fit, "sample": sample, "peak": peak}
    if module.PACKAGE:
        costs["version"] = version(module.PACKAGE)
    (folder / "costs.json").write_text(json.dumps(costs))


def cpu_seconds() -> float:
    """Return the time of all threads of this process and of the children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def peak_resident() -> int:
    """Return the most bytes that this process had in memory, its libraries included."""
    try:  # ru_maxrss would begin with the memory of the process that started this one
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(
            int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")
        )
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
            1 if sys.platform == "darwin" else 1024
        )


if __name__ == "__main__":
    main()
