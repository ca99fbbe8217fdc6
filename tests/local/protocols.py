"""Local transformers of each field of a protocol, with their tables, by name."""

from datetime import date
from fractions import Fraction

import numpy as np
import pandas as pd

import skdp

PEOPLE = pd.DataFrame({"sex": ["f", "m", "f", "m"] * 50, "rooms": [1, 2, 3, 1] * 50})
HOURS = pd.DataFrame({"hours": [0.0, 0.1, 0.3, 7.0, np.nan] * 40, "sex": ["f", "m", "f", "m", "m"] * 40})
VALUES = {"sex": ["f", "m"], "rooms": [1, 2, 3]}
KEY = skdp.SecretKey(b"a key that nobody may see in a file")
FITTED = {
    "response": (skdp.RandomizedResponseEncoder(1.0, categories=VALUES), PEOPLE),
    "joint": (skdp.RandomizedResponseEncoder(1.0, strategy="joint", categories=skdp.Domain(VALUES)), PEOPLE),
    "sample": (skdp.RandomizedResponseEncoder(Fraction(1, 3), strategy="sample", categories=VALUES), PEOPLE),
    "permanent": (skdp.RandomizedResponseEncoder(1.0, memoize=True, secret_key=KEY, categories=VALUES), PEOPLE),
    "two rounds": (
        skdp.UnaryEncodingTransformer(1.0, memoize=True, secret_key=KEY, instantaneous_epsilon=0.5, categories=VALUES),
        PEOPLE,
    ),
    "unary": (skdp.UnaryEncodingTransformer(1.0, categories=VALUES), PEOPLE),
    "subset": (skdp.SubsetSelectionEncoder(1.0, categories=VALUES, handle_unknown="uniform"), PEOPLE),
    "one of two": (skdp.SubsetSelectionEncoder(2.0, categories={"sex": ["f", "m"]}), PEOPLE[["sex"]]),
    "hashing": (skdp.LocalHashingEncoder(1.0, categories=VALUES), PEOPLE),
    "large hashing": (skdp.LocalHashingEncoder(2.0, categories={"rooms": range(70_000)}), PEOPLE[["rooms"]]),
    "auto": (skdp.FrequencyOracleEncoder(1.0, categories=VALUES), PEOPLE),
    "table of values": (skdp.LocalTableEncoder(2.0, categories=VALUES), PEOPLE),
    "table of two kinds": (skdp.LocalTableEncoder(2.0, categories=VALUES | {"rooms": range(60)}), PEOPLE),
    "bins and missing": (
        skdp.RandomizedResponseEncoder(
            2.0, categories={"hours": skdp.Interval(edges=[0, 0.1, 0.3, 7], missing=True), "sex": ["f", "m"]}
        ),
        HOURS,
    ),
    "bins of dates": (
        skdp.RandomizedResponseEncoder(
            1.0, categories={"day": skdp.Interval(edges=[date(2020, 1, 1), date(2020, 2, 1), date(2020, 3, 1)])}
        ),
        pd.DataFrame({"day": [date(2020, 1, 1), date(2020, 2, 1)]}),
    ),
    "dates": (
        skdp.RandomizedResponseEncoder(1.0, categories={"day": [date(2020, 1, 1), date(2020, 1, 2), None]}),
        pd.DataFrame({"day": [date(2020, 1, 1), None]}),
    ),
    "array": (skdp.RandomizedResponseEncoder(1.0, categories=[["f", "m"]]), np.array([["f"], ["m"]])),
    "numbers": (skdp.NumericPerturber(1.0, bounds={"sex": (0, 1), "rooms": (1, 3)}), PEOPLE.assign(sex=0.5)),
    "rappor": (skdp.RapporEncoder(1.0, n_bits=16), PEOPLE[["sex"]]),
    "lists": (skdp.SetValuedEncoder(1.0, categories={"sex": ["f", "m"]}), PEOPLE[["sex"]].map(lambda value: [value])),
}
