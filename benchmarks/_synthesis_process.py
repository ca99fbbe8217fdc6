"""Let a synthesizer work in a process of its own: peers in environments of their own (see the Makefile)."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skdp import Domain

ROOT = Path(__file__).parent.parent
WORKER = Path(__file__).parent / "_synthesis_worker.py"
MARGIN = 4  # a synthesizer may take so many times longer by the clock than its CPU time
PEERS = "mbi", "dpmm"


def python(method: str) -> Path:
    """Return the interpreter of the environment that has a synthesizer."""
    library = method.split("-")[0]
    if library in PEERS:
        return ROOT / f".venv-bench-{library}/bin/python"
    return Path(sys.executable)


def work(
    job: dict[str, Any], frame: pd.DataFrame, domain: Domain, codes: np.ndarray
) -> tuple[dict[str, Any], np.ndarray | None]:
    """Return the costs of a job and the codes of its rows, or how it failed and None.

    A job has a "method", "epsilon", "delta", "seed", and a "limit" of CPU seconds.
    """
    limit = job["limit"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job.json").write_text(json.dumps(job | {"sizes": domain.sizes}))
        (folder / "table.pickle").write_bytes(pickle.dumps((frame, domain)))
        np.save(folder / "real.npy", codes)
        try:
            done = subprocess.run(
                [python(job["method"]), "-W", "ignore", WORKER, folder],
                timeout=MARGIN * limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"> {MARGIN * limit} s by the clock"}, None
        if done.returncode == -signal.SIGXCPU:
            return {"failed": f"> {limit} CPU s"}, None
        if done.returncode != 0:
            return {"failed": f"ended with code {done.returncode}"}, None
        costs = json.loads((folder / "costs.json").read_text())
        return costs, np.load(folder / "synthetic.npy")
