"""Tables of odd values and containers, which no error of a transformer may show."""

import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn.base import clone

from skdp import PrivacyLedger
from skdp.testing import texts_of
from tests.carry_checks import objects_of_rows

SECRET_TEXT, SECRET_NUMBER, TIME = "s3cr3t", 72619.25, pd.Timestamp("2072-06-19")


def shows(*texts):
    return any(sign in text for text in texts for sign in (SECRET_TEXT, "72619"))


def require_hidden(estimator, X):
    """Fail if an error, a fit or a release of a table shows a secret value of it, or an error is charged."""
    for label, table in odd_tables(X):
        ledger = PrivacyLedger(epsilon=1e9)
        fitted = clone(estimator).set_params(ledger=ledger).fit(X)
        for call in (clone(estimator).fit, fitted.transform):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    texts = [repr(call(table))]
                except (TypeError, ValueError) as error:
                    texts = list(texts_of(error))
                    assert ledger.spent == (0, 0), label
            assert not shows(*texts, *(str(warning.message) for warning in caught)), label


def tables_with(value, name, rows):
    """Yield a frame and a list of rows, of which the last has an odd value."""
    odd_rows = rows | {name: [*rows[name][:-1], value]}
    label = f"{type(value).__name__} in {name!r}"
    yield label, pd.DataFrame(objects_of_rows(odd_rows), columns=list(rows), dtype=object)
    yield f"{label} of a list", list(map(list, zip(*odd_rows.values(), strict=True)))


def odd_tables(X):
    """Yield tables with a secret that a transformer refuses, or takes without showing it."""
    rows = {name: X[name].tolist()[:4] for name in X}
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
