"""Tables of odd values and containers, which no error of a transformer may show."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from skdp.testing._error_checks import SECRET_NUMBER, SECRET_TEXT, TIME, tables_with


def odd_tables(subject):
    """Yield tables with a secret that a transformer refuses, or takes without showing it."""
    rows = subject.rows(4)
    for value in _odd_objects():
        yield from tables_with(value, next(iter(rows)), rows)
    yield from _other_containers(len(rows))


def _other_containers(n_columns):
    # What the checks of scikit-learn refuse, some of them with the values.
    numbers = np.full((3, n_columns), SECRET_NUMBER)
    yield "a 1-D array", np.array([SECRET_TEXT, SECRET_TEXT], object)
    yield "a 1-D list", [SECRET_TEXT, SECRET_NUMBER]
    yield "a 1-D array of numbers", np.array([SECRET_NUMBER] * 3)
    yield "a series", pd.Series([SECRET_TEXT] * 3)
    yield "a 3-D array", np.full((2, 2, n_columns), SECRET_NUMBER)
    yield "a ragged list", [[SECRET_TEXT], [SECRET_TEXT] * 3]
    yield "a single value", SECRET_TEXT
    yield "complex numbers", numbers + 1j
    yield "text as an array", np.full((3, n_columns), SECRET_TEXT)
    yield "numbers as an array", numbers
    yield "a sparse array", csr_array(numbers)
    yield "a masked array", np.ma.masked_array(numbers, mask=True)


def _raising(base, *methods):
    """Make a class whose methods raise an error that shows the value."""

    def fail(self, *arguments):
        raise ArithmeticError(SECRET_TEXT)

    attributes = {"__hash__": base.__hash__, "__repr__": lambda self: SECRET_TEXT}
    return type("Odd", (base,), attributes | dict.fromkeys(methods, fail))


def _odd_objects():
    text = SECRET_TEXT.encode()
    return (
        # Neither text nor numbers.
        b"\xff" + text,
        memoryview(text),
        np.void(text),
        SECRET_TEXT + "\ud800",
        complex(SECRET_NUMBER, 1),
        TIME.tz_localize("Europe/Paris"),
        np.datetime64("7261900-01-01"),
        [SECRET_TEXT, [SECRET_TEXT]],
        # Numbers that a float cannot hold.
        Decimal("sNaN72619"),
        Decimal(SECRET_NUMBER),
        Fraction(72619, 3),
        Fraction(72619 * 10**400, 3),
        -72619 * 10**400,
        # Objects that raise errors when they are hashed, compared or converted.
        _raising(object, "__hash__")(),
        _raising(object, "__eq__")(),
        _raising(str, "__str__", "__hash__")(SECRET_TEXT),
        _raising(float, "__float__")(SECRET_NUMBER),
        _raising(object, "__array__")(),
    )
