"""Write the test vectors of the client: bytes in, report out, for every kind of sampler.

python examples/client/make_vectors.py
"""

import json
from pathlib import Path

import numpy as np

import skdp.oracles
from skdp.oracles import (
    CountMeanSketch,
    Draws,
    HadamardResponse,
    LocalHashing,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
    client_report,
)
from skdp.randomness import SeededSource

ORACLES = [
    RandomizedResponse(2, 1.0),
    RandomizedResponse(14, 0.5),
    RandomizedResponse(256, 12.0),  # most words are the truth, and many are undecided
    RandomizedResponse(1000, 3.0),
    UnaryEncoding(4, 1.0),
    UnaryEncoding(5, 2.0, variant="symmetric"),
    SubsetSelection(5, 1.0),
    SubsetSelection(16, 0.5),
    HadamardResponse(5, 1.0),
    HadamardResponse(100, 4.0, n_blocks=4),
    LocalHashing(50, 1.0),
    LocalHashing(100_000, 2.0),
    CountMeanSketch(10_000, 2.0, n_functions=3, n_buckets=64),
]
VECTORS_EACH = 12


class Recorder:
    """A source that remembers the bytes that it gave."""

    def __init__(self, source):
        self._source, self.given = source, b""

    def bytes(self, size):
        drawn = self._source.bytes(size)
        self.given += drawn.tobytes()
        return drawn


def make_vectors():
    """Return the vectors: seeds and codes are fixed, so that they are always the same."""
    vectors = []
    for place, oracle in enumerate(ORACLES):
        sampler, codes = oracle.sampler(), np.linspace(0, oracle.k - 1, VECTORS_EACH).astype(int)
        for repeat, code in enumerate(codes.tolist()):
            source = Recorder(SeededSource(place, repeat))
            report = [str(number) for number in client_report(sampler, code, Draws(source))]  # up to 62 bits
            vectors.append({"sampler": sampler, "code": code, "bytes": source.given.hex(), "report": report})
    return vectors


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(vector, separators=(",", ":")) for vector in make_vectors())
    Path(skdp.oracles.__file__).with_name("client_vectors.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
