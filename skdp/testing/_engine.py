"""Checks of an engine of large tables, on made-up rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from skdp.central import DPGroupBy
from skdp.domain import Domain
from skdp.engines import privatize, tally
from skdp.large import LargeTable, open_engine, show_errors
from skdp.local import RandomizedResponseEncoder
from skdp.privacy import PrivacyLedger, WeakGuaranteeWarning
from skdp.testing._subject import require

_COLORS = Domain({"color": ["red", "green", None]})


def check_engine(make_frame: Callable[[Any], Any]) -> None:
    """Check an engine of large tables on made-up rows, and show the errors of its code.

    Elsewhere, the text of an error of an engine is omitted, because it may contain values of a row. Here, errors are
    raised unchanged with their tracebacks. `CONTRIBUTING.md` lists the methods of an engine.

    Parameters
    ----------
    make_frame : callable
        Returns a frame of the engine's library with the rows of a `pyarrow.Table`.

    Raises
    ------
    AssertionError
        If a result differs from the result of the rows in memory.

    See Also
    --------
    skdp.engines.privatize : Privatize a table of any engine.

    Notes
    -----
    **Privacy.** No private data are read: all rows are made up by this function.

    Examples
    --------
    >>> import polars as pl
    >>> from skdp.testing import check_engine
    >>> print(check_engine(lambda rows: pl.from_arrow(rows).lazy()))
    None
    """
    import pyarrow

    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "color": rng.choice(np.array(["red", "green", None], object), 3_000),
            "size": rng.integers(0, 10, 3_000),
            "weight": rng.random(3_000),
        }
    )
    table = pyarrow.Table.from_pandas(rows, preserve_index=False)
    with (
        show_errors(),
        # The reports are true values, which are compared with the rows.
        warnings.catch_warnings(action="ignore", category=WeakGuaranteeWarning),
    ):
        frame = make_frame(table)
        _check_rows(frame, rows)
        _check_statistics(frame, rows)
        _check_reports(frame, rows)
        _check_charge(frame)


def _check_rows(frame: Any, rows: pd.DataFrame) -> None:
    """Check the names of the columns, the table without rows, and all rows."""
    engine = open_engine(frame)
    names = engine.column_names()
    require(names == list(rows), f"column_names() must be {list(rows)}, got {names}.")
    require(len(engine.sample) == 0, "`sample` must have no rows.")
    require(
        _list_weights(engine) == sorted(rows["weight"]),
        "load() must return the values of all rows.",
    )


def _list_weights(engine: LargeTable) -> list[float]:
    """Return the sorted weights of all rows, which are distinct."""
    loaded = nw.from_native(engine.load(), eager_only=True)
    return sorted(loaded.get_column("weight").to_list())


def _check_statistics(frame: Any, rows: pd.DataFrame) -> None:
    """Check that counts, sums and quantiles equal those of the rows in memory, with the same seed."""
    groups = DPGroupBy(
        1.0,
        by="color",
        keys=_COLORS,
        bounds={"size": (0, 9), "weight": (0.0, 1.0)},
        statistics=["count", "mean", "median"],
        random_state=0,
    )
    expected = groups.fit(rows).to_frame()
    found = nw.from_native(groups.fit(frame).to_frame()).select(*expected.columns)
    require(
        np.array_equal(found.to_numpy(), expected.to_numpy()),
        "statistics of groups must equal the statistics of the rows in memory.",
    )


def _check_reports(frame: Any, rows: pd.DataFrame) -> None:
    """Check the numbers of reports, which are true values with this epsilon, and a column that is kept."""
    encoder = RandomizedResponseEncoder(60.0, categories=_COLORS, random_state=0)
    reports = privatize(frame, encoder, keep=["weight"])
    counts = encoder.estimate_counts(tally(reports, encoder))["count"].round()
    expected = rows["color"].value_counts(dropna=False)
    require(
        sorted(counts) == sorted(expected), "each row must have exactly one report."
    )
    kept = _list_weights(open_engine(reports))
    require(kept == sorted(rows["weight"]), "kept columns must be unchanged.")


def _check_charge(frame: Any) -> None:
    """Check that an undeclared value raises an error before the charge."""
    ledger = PrivacyLedger(1.0)
    encoder = RandomizedResponseEncoder(
        1.0, categories={"color": ["red", "green"]}, ledger=ledger
    )
    try:
        privatize(frame, encoder)
    except ValueError:
        pass
    else:
        raise AssertionError("an undeclared value must raise an error.")
    require(not ledger.spent.epsilon, "an undeclared value must raise before a charge.")
