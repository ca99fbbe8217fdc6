"""skdp's synthesizer, and the references, for benchmarks/synthesis_adult.py."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

PACKAGE = None


class Own:
    """skdp: takes the dataframe itself, so its time includes coding the values and drawing them within the bins."""

    def __init__(self, marginals: str, folder: Path, job: dict[str, Any]) -> None:
        from skdp import DPMarginalSynthesizer

        with (folder / "table.pickle").open("rb") as file:
            self.frame, self.domain = pickle.load(file)
        parameters = {
            "epsilon": job["epsilon"],
            "delta": job["delta"],
            "domain": self.domain,
        }
        self.synthesizer = DPMarginalSynthesizer(**parameters, marginals=marginals)

    def fit(self) -> None:
        """Fit to the real rows."""
        self.synthesizer.fit(self.frame)

    def sample(self) -> pd.DataFrame:
        """Draw as many rows as there are real ones."""
        return self.synthesizer.sample(len(self.frame))

    def encode(self, rows: pd.DataFrame) -> np.ndarray:
        """Code the synthetic rows."""
        return np.array(
            self.domain.encode([rows[column] for column in self.domain.columns])
        )


class Reference:
    """What no privacy costs."""

    def __init__(self, folder: Path, job: dict[str, Any]) -> None:
        self.codes = np.load(folder / "real.npy")
        self.rng = np.random.default_rng(job["seed"])

    def fit(self) -> None:
        """Do nothing."""

    def encode(self, rows: np.ndarray) -> np.ndarray:
        """Return the codes."""
        return rows


class Bootstrap(Reference):
    """Real rows, drawn with replacement: what remains is the error of sampling."""

    def sample(self) -> np.ndarray:
        """Draw rows."""
        n = self.codes.shape[1]
        return self.codes[:, self.rng.integers(n, size=n)]


class Shuffled(Reference):
    """Every column shuffled by itself: independent columns without noise."""

    def sample(self) -> np.ndarray:
        """Shuffle."""
        return self.rng.permuted(self.codes, axis=1)


ALGORITHMS: dict[str, Any] = {
    marginals: partial(Own, marginals) for marginals in ("auto", "independent")
}
ALGORITHMS |= {"bootstrap": Bootstrap, "shuffled": Shuffled}
