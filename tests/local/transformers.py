"""Local transformers with their tables, by name."""

import pandas as pd
import pytest

import skdp
from skdp.local import OracleEncoder

# Encoders of categories with the same parameters.
KINDS = [kind for name in skdp.local.__all__ if isinstance(kind := getattr(skdp.local, name), type)]
ENCODERS = [kind for kind in KINDS if issubclass(kind, OracleEncoder)]

PEOPLE = pd.DataFrame({"sex": ["Female", "Male", "Male"] * 20, "job": ["clerk", None, "sales"] * 20})
NUMBERS = pd.DataFrame({"age": [17.0, 38.0, 90.0] * 20, "hours": [0.0, 40.0, 60.5] * 20, "rooms": [1.0, 2.0, 5.0] * 20})
LISTS = pd.DataFrame({"tags": [("a", "b"), (), ("c",)] * 20})
WORDS = pd.DataFrame({"page": ["a.example", "b.example", ""] * 20})
VALUES = {"sex": ["Female", "Male"], "job": ["clerk", None, "sales"]}
BOUNDS = {"age": (0, 100), "hours": (0, 80), "rooms": (0, 9)}
TRANSFORMERS = {
    "response": (skdp.RandomizedResponseEncoder(categories=VALUES), PEOPLE),
    "joint response": (skdp.RandomizedResponseEncoder(categories=VALUES, strategy="joint"), PEOPLE),
    "sampled response": (skdp.RandomizedResponseEncoder(categories=VALUES, strategy="sample"), PEOPLE),
    "bits": (skdp.UnaryEncodingTransformer(categories=VALUES), PEOPLE),
    "sets": (skdp.SubsetSelectionEncoder(categories=VALUES), PEOPLE),
    "buckets": (skdp.LocalHashingEncoder(categories=VALUES), PEOPLE),
    "best": (skdp.FrequencyOracleEncoder(categories=VALUES), PEOPLE),
    "numbers": (skdp.NumericPerturber(bounds=BOUNDS, grid_size=16), NUMBERS),
    "square wave": (skdp.NumericPerturber(bounds=BOUNDS, mechanism="square_wave", grid_size=16), NUMBERS),
    "table": (skdp.LocalTableEncoder(3.0, categories=VALUES, bounds=BOUNDS), PEOPLE.join(NUMBERS)),
    "pairs": (skdp.LocalTableEncoder(4.0, categories=VALUES, workload="pairs"), PEOPLE),
    "lists": (skdp.SetValuedEncoder(categories={"tags": ["a", "b", "c", "d"]}, max_size=2), LISTS),
    "words": (skdp.RapporEncoder(n_bits=16), WORDS),
}
every_transformer = pytest.mark.parametrize("name", TRANSFORMERS)
