"""dpmm's pipelines for benchmarks/synthesis_adult.py, in an environment of its own: it pins NumPy 1.26."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from dpmm.pipelines.aim import AIMPipeline
from dpmm.pipelines.mst import MSTPipeline

PACKAGE = "dpmm"
ITERATIONS = (
    200  # of AIM, each time it fits; the default of 1,000 takes five times as long
)


class Pipeline:
    """A pipeline on columns that are coded already, with its own conversion from epsilon and delta to zCDP."""

    def __init__(
        self, pipeline: Any, options: dict[str, Any], folder: Path, job: dict[str, Any]
    ) -> None:
        codes = np.load(folder / "real.npy").astype(np.int64)
        self.domain = {f"x{number}": size for number, size in enumerate(job["sizes"])}
        self.frame = pd.DataFrame(dict(zip(self.domain, codes, strict=True)))
        self.seed = job["seed"]
        budget = {"epsilon": job["epsilon"], "delta": job["delta"]}
        self.pipeline = pipeline(**budget, disable_processing=True, n_jobs=1, **options)

    def fit(self) -> None:
        """Fit to the real rows."""
        self.pipeline.fit(self.frame, domain=self.domain, random_state=self.seed)

    def sample(self) -> pd.DataFrame:
        """Draw as many rows as there are real ones."""
        return self.pipeline.generate(len(self.frame), random_state=self.seed)

    def encode(self, rows: pd.DataFrame) -> np.ndarray:
        """Return the codes."""
        return rows[list(self.domain)].to_numpy().T.astype(np.uint8)


ALGORITHMS = {
    "mst": partial(Pipeline, MSTPipeline, {}),
    "aim": partial(
        Pipeline,
        AIMPipeline,
        {"max_model_size": 80, "gen_kwargs": {"n_iters": ITERATIONS}},
    ),
}
