"""Write test vectors for clients: the report for given bytes and each type of sampler, and the bins of numbers.

python examples/client/make_vectors.py
"""

import json
from pathlib import Path

import numpy as np
from client import client_report

import skdp.domain
from skdp.domain import Interval
from skdp.oracles import (
    LocalHashing,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)
from skdp.randomness import SeededSource

ORACLES = [
    RandomizedResponse(2, 1.0),
    RandomizedResponse(14, 0.5),
    RandomizedResponse(
        256, 12.0
    ),  # most words report the true value, and many use the coin
    RandomizedResponse(1000, 3.0),
    UnaryEncoding(4, 1.0),
    UnaryEncoding(5, 2.0, variant="symmetric"),
    SubsetSelection(5, 1.0),
    SubsetSelection(16, 0.5),
    LocalHashing(50, 1.0),
    LocalHashing(100_000, 2.0),
]
VECTORS_EACH = 12

INTERVALS = [
    Interval(0.0, 1.0, bins=10),  # the third edge is 0.3
    Interval(0, 100, bins=7, missing=True),
    Interval(1, 7),
    Interval(-1.0, 1.0, bins=2),
    Interval(edges=[0, 18, 38, 65, 120]),
    Interval(
        edges=[-1e300, -1e-300, 5e-324, 1e-300, 2.5, 1e300], missing=True
    ),
    Interval(edges=[2**53, 2**53 + 2, 2**53 + 6]),
    Interval(edges=[0.1, 0.2, 0.1 + 0.2]),  # the last edge is above 0.3
]


class Recorder:
    """Source that records the bytes that it returns."""

    def __init__(self, source):
        self._source, self.given = source, b""

    def bytes(self, size):
        drawn = self._source.bytes(size)
        self.given += drawn.tobytes()
        return drawn


def make_vectors():
    """Return reproducible vectors, from fixed seeds and codes."""
    vectors = []
    for place, oracle in enumerate(ORACLES):
        sampler, codes = (
            oracle.sampler(),
            np.linspace(0, oracle.k - 1, VECTORS_EACH).astype(int),
        )
        for repeat, code in enumerate(codes.tolist()):
            source = Recorder(SeededSource(place, repeat))
            # Text, because numbers have up to 62 bits.
            report = [
                str(number)
                for number in client_report(sampler, code, source)
            ]
            vectors.append(
                {
                    "sampler": sampler,
                    "code": code,
                    "bytes": source.given.hex(),
                    "report": report,
                }
            )
    return vectors


def make_bin_vectors():
    """Return the codes of numbers at, between and next to the edges of each interval; null outside the bins."""
    vectors = []
    for interval in INTERVALS:
        edges = np.array(interval.edges)
        beside = [
            np.nextafter(edges, -np.inf),
            np.nextafter(edges, np.inf),
            edges[:-1] / 2 + edges[1:] / 2,
        ]
        numbers = np.unique(
            [*edges, *np.concatenate(beside), 0.3, 0.1 + 0.2]
        )
        codes = interval.encode(numbers).tolist()
        vectors.append(
            {
                "edges": interval.edges,
                "whole": not interval.takes_fractions,
                "values": interval.values,
                "numbers": numbers.tolist(),
                "codes": [
                    None if code == len(interval) else code
                    for code in codes
                ],
            }
        )
    return vectors


def write_vectors(path, vectors):
    lines = ",\n".join(
        json.dumps(vector, separators=(",", ":")) for vector in vectors
    )
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    write_vectors(
        Path(__file__).with_name("client_vectors.json"),
        make_vectors(),
    )
    write_vectors(
        Path(skdp.domain.__file__).with_name("bin_vectors.json"),
        make_bin_vectors(),
    )
