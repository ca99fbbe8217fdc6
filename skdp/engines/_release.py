"""The one step that matters for privacy: a batch of true rows in, a batch of reports out."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skdp.domain import Domain
from skdp.engines._coins import BatchCoins, KeyedCoins, Place, batch_coins
from skdp.engines._schema import fit_on_schema
from skdp.frames import Table, read_table
from skdp.local import OnFitOnly
from skdp.local._base import LocalTransformer

WHOLE = Place()


class Release:
    """Privatise batches of one table; it can be pickled and sent to workers, and shows neither key nor rows.

    Parameters
    ----------
    transformer : LocalTransformer
        Fitted. What it is given to charge stays behind: workers charge nothing.
    keep : sequence of str
        Columns that are released as they are.
    coins : BatchCoins
        What draws the reports.
    """

    def __init__(self, transformer: LocalTransformer, keep: Sequence[str], coins: BatchCoins) -> None:
        self._transformer = copy.copy(transformer)
        self._transformer.ledger = self._transformer._ledger = None
        self._keep = tuple(keep)
        self._coins = coins

    @property
    def columns(self) -> list[str]:  # numpydoc ignore=RT01
        """The columns that are read."""
        return [*self.domain.columns, *self._keep]

    @property
    def domain(self) -> Domain:  # numpydoc ignore=RT01
        """The declared values of the columns that are privatised."""
        return self._transformer.domain_

    @property
    def seeded(self) -> bool:  # numpydoc ignore=RT01
        """Whether the coins come from a seed, and depend on the numbers of rows."""
        return not isinstance(self._coins, KeyedCoins)

    def __call__(self, batch: Any, place: Place = WHOLE) -> Any:
        """Privatise a batch.

        Parameters
        ----------
        batch : pandas, polars or pyarrow table
            True rows; columns that are neither privatised nor kept are left out.
        place : Place
            Where the batch stands in its table.

        Returns
        -------
        same kind as the batch
            The reports, then the kept columns.

        Raises
        ------
        ValueError
            If the batch holds an undeclared value; the error names the column.
        """
        transformer = self._transformer
        table = read_table(batch)
        found = dict(zip(table.names, table.columns, strict=True))
        names = transformer.domain_.columns
        columns = tuple(found[name] for name in names)
        if len(batch) == 0:
            return self._release_nothing(Table(names, columns, batch))
        codes, write = transformer._prepare(Table(names, columns, batch))
        return self._with_kept(write(*self._coins.draw(transformer, codes, place)), batch)

    def _release_nothing(self, table: Table) -> Any:
        """Write the report of a made-up row, and drop it: the transformers write no table without rows."""
        native = table.native
        pandas = isinstance(native, pd.DataFrame)
        like = pd.DataFrame(index=pd.RangeIndex(1), columns=native.columns) if pandas else native
        codes, write = self._transformer._prepare(Table(table.names, table.columns, like))
        row = [np.zeros(1, column.dtype) for column in codes]
        released = write(*KeyedCoins().draw(self._transformer, row, WHOLE))[:0]
        return self._with_kept(released.set_axis(native.index) if pandas else released, native)

    def _with_kept(self, released: Any, batch: Any) -> Any:
        if not self._keep:
            return released
        kept = nw.from_native(batch, eager_only=True).select(*self._keep)
        return nw.concat([nw.from_native(released, eager_only=True), kept], how="horizontal").to_native()

    @classmethod
    def plan(cls, sample: Any, transformer: Any, keep: Sequence[str]) -> tuple[Self, Any]:
        """Check all that can be checked without a row, charge the ledger, and start the coins.

        Parameters
        ----------
        sample : pandas, polars or pyarrow table
            No rows, but the columns and dtypes of the table.
        transformer : LocalTransformer
            What privatises.
        keep : sequence of str
            Columns that are released as they are.

        Returns
        -------
        tuple of Release and table
            What privatises the batches, and what it makes of the sample.

        Raises
        ------
        TypeError, ValueError
            If the transformer or the columns do not fit.
        BudgetExceeded
            If the ledger does not cover the release.
        """
        trial = cls.rehearse(sample, transformer, keep)
        if transformer._ledger is not None:
            transformer._ledger.charge(transformer.guarantee_, type(transformer).__name__)
        return cls(transformer, keep, batch_coins(transformer)), trial

    @classmethod
    def rehearse(cls, sample: Any, transformer: Any, keep: Sequence[str]) -> Any:
        """Check all that can be checked without a row; fit the transformer if it is not, and charge nothing.

        Parameters
        ----------
        sample : pandas, polars or pyarrow table
            No rows, but the columns and dtypes of the table.
        transformer : LocalTransformer
            What privatises.
        keep : sequence of str
            Columns that are released as they are.

        Returns
        -------
        table
            What the release makes of the sample.

        Raises
        ------
        TypeError, ValueError
            If the transformer or the columns do not fit.
        """
        check_transformer(transformer)
        kept = _check_keep(sample, keep)
        if not hasattr(transformer, "domain_"):
            fit_on_schema(transformer, sample, kept)
        check_columns(sample, transformer.domain_)
        for name in kept:
            if name in transformer.domain_.columns:
                raise ValueError(f"keep must not name a column that is privatised, got {name!r}")
            if name in transformer._own_names():
                raise ValueError(f"keep names {name!r}, and so does a column of the reports; rename it")
        if transformer._memo is not None:
            raise ValueError(
                "memoize=True needs the record ids of all rows at once, to check that no one is repeated; transform "
                "the table in memory, or day by day"
            )
        return cls(transformer, kept, KeyedCoins())(sample)


def _check_keep(sample: Any, keep: Any) -> list[str]:
    if isinstance(keep, str) or not isinstance(keep, Sequence):
        raise TypeError(f"keep must be a list of column names, got {type(keep).__name__}")
    names = read_table(sample).names
    absent = [name for name in keep if name not in names]
    if absent or len(set(keep)) < len(keep):
        raise ValueError(f"keep must name distinct columns of {list(names)}, got {list(keep)}")
    return list(keep)


def check_transformer(transformer: Any) -> None:
    """Check that a transformer can work batch by batch.

    Parameters
    ----------
    transformer : object
        What the user gave.

    Raises
    ------
    TypeError
        If it cannot.
    """
    if isinstance(transformer, OnFitOnly):
        raise TypeError("OnFitOnly leaves the rows of `transform` true; give the transformer inside it")
    if not isinstance(transformer, LocalTransformer):
        kind = transformer.__name__ if isinstance(transformer, type) else type(transformer).__name__
        raise TypeError(
            "transformer must be one of the encoders of skdp.local that report by frequency oracles, such as "
            f"RandomizedResponseEncoder, got {kind}"
        )


def check_columns(sample: Any, domain: Domain) -> None:
    """Check that a table has the columns of a domain.

    Parameters
    ----------
    sample : table
        Its columns count, not its rows.
    domain : Domain
        What was fitted.

    Raises
    ------
    ValueError
        If it lacks some.
    """
    names = read_table(sample).names
    absent = [name for name in domain.columns if name not in names]
    if absent:
        raise ValueError(
            f"the table lacks the columns {absent} that the transformer was fitted on; it has {list(names)}"
        )


def check_tally(transformer: Any) -> None:
    """Check that a transformer can tally.

    Parameters
    ----------
    transformer : object
        What the user gave.

    Raises
    ------
    TypeError, NotFittedError
        If it cannot, or is not fitted.
    """
    check_transformer(transformer)
    check_is_fitted(transformer)
