"""Other libraries in environments of their own, because they need other versions than skdp does.

`SKDP_PEERS` is the path of a folder with one environment for each script in `peers`:

    python -m venv $SKDP_PEERS/dpmm
    $SKDP_PEERS/dpmm/bin/pip install --requirement benchmarks/peers/dpmm.txt

The time of a peer contains the start of its Python.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

SCRIPTS = Path(__file__).resolve().parent / "peers"


def run_peer(
    library: str, arrays: dict[str, NDArray[Any]], **options: Any
) -> dict[str, NDArray[Any]]:
    """Run a library's script on arrays, and return the arrays that it writes."""
    python = Path(os.environ.get("SKDP_PEERS", ""), library, "bin", "python")
    if not python.exists():
        raise ImportError(f"there is no environment of {library}")
    with TemporaryDirectory() as place:
        source, target = Path(place, "source.npz"), Path(place, "target.npz")
        np.savez(source, **arrays)
        script = SCRIPTS / f"run_{library}.py"
        subprocess.run(
            [python, script, source, target, json.dumps(options)],
            check=True,
            stdout=subprocess.DEVNULL,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        )
        with np.load(target) as written:
            return dict(written)
