"""Rows that are drawn from a fitted model: whole ones, or some columns of rows that are there."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, BinaryIO, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    CallCounter,
    ColumnName,
    PathType,
    TableLike,
    as_asked,
    check_names,
    draw_seed,
    level_of_the_caller,
    read_input,
    refuse_protected_levels,
)
from skdp.domain import Domain
from skdp.oracles import check_size
from skdp.pages import warn
from skdp.persistence import load, save
from skdp.synthesis._answers import ModelAnswers
from skdp.synthesis._persistence import Scores, describe_fit, restore_fit
from skdp.synthesis.model import GraphicalModel, Marginal, redraw_evenly, sample
from skdp.synthesis.selection import (
    Zeros,
    fit_table,
    read_order,
    read_zeros,
)
from skdp.synthesis.tables import (
    DrawnRows,
    Relations,
    assemble,
    draw_rows,
    public_template,
    read_codes,
    values_of,
    with_target,
    write_rows,
)
from skdp.tables import Table, is_frame, read_table

_MOST_SAMPLES = 10**9

_MOST_ROUNDS = 200
"""The most rounds in which rows that break a relation are drawn again."""

_LEAST_OF_A_ROUND = 256
"""The fewest rows of a round: with few places to replace, each is drawn several times."""

_CHECKED_ROWS = 2_000
"""For the share of rows that are drawn again: it has a standard error of at most 1.2 %."""

_MOST_REDRAWN = 0.5


class RowTransformer(TransformerMixin, ModelAnswers):
    """The part of a synthesizer that draws rows from the fitted model; and its file."""

    random_state: int | None
    structural_zeros: Any
    redraw: Sequence[ColumnName] | None
    protect: Sequence[ColumnName] | None
    max_iter: Any
    tol: float
    relations_: list[str]
    _template: Table
    _calls: CallCounter
    _scores: Scores

    @property
    def pair_scores_(self) -> pd.DataFrame:  # numpydoc ignore=RT01
        """The noisy scores of pairs."""
        check_is_fitted(self)
        return _tabulate_scores(self._scores, self.domain_, self.marginals_)

    def _generator(self, *key: Any) -> np.random.Generator:
        """Return the generator of post-processing, which shares no random bits with the noise."""
        seed = draw_seed(self.random_state)
        if seed is None:
            return np.random.default_rng()
        return np.random.default_rng([seed, *map(ord, repr(key))])

    def sample(
        self, n_samples: int | None = None, *, n_tables: int | None = None
    ) -> Any:
        """Draw synthetic rows, for exploring and training.

        Parameters
        ----------
        n_samples : int, optional
            How many, at least 0; by default the estimated number of records.
        n_tables : int, optional
            How many tables, at least 1: each of a model of its own, fitted to the noisy counts with as much noise
            again. What differs between them shows how much the noise decides, but not of where numbers lie within
            the bins of ``bins="private"``.

        Returns
        -------
        same kind as X of `fit`, or list of these
            The rows, the target's column last. Each call draws new ones; numbers are drawn within their bin. A list, if
            `n_tables` is given.

        Raises
        ------
        TypeError, ValueError
            If a number is no integer, or too small.

        Warnings
        --------
        Standard errors, intervals and tests that take these rows for those of persons are too short, and reject what is
        true: they leave out the noise, what was not measured, and that the number of rows may be chosen at will. Take
        those of `skdp.synthetic_inference`, `marginal` and `count_estimate`, which know the noise.

        See Also
        --------
        sample_batches : The same for more rows than memory holds.
        skdp.synthetic_inference : Estimates with intervals that hold.
        """
        check_is_fitted(self)
        n, rng = self._start_sample(n_samples)
        if n_tables is None:
            return self._draw_table(self.model_, n, rng)
        tables = []
        for _ in range(check_size(n_tables, name="n_tables", least=1)):
            model, total = self._fit_again(rng)
            # Each table has the number of records that its own counts say.
            n_rows = round(total) if n_samples is None else n
            tables.append(self._draw_table(model, n_rows, rng))
        return tables

    def _draw_table(
        self, model: GraphicalModel, n: int, rng: np.random.Generator
    ) -> Any:
        """Draw rows of a model."""
        columns = self._draw_columns(self._template, model, n, rng)
        return assemble(self._template, columns, self.domain_.columns)

    def _draw_columns(
        self, template: Table, model: GraphicalModel, n: int, rng: np.random.Generator
    ) -> tuple[Any, ...]:
        """Draw rows of a model, as columns of a template."""
        rows = self._draw_whole(model, n, rng)
        for _ in range(_MOST_ROUNDS):
            places = self._places_to_replace(rows, {})
            if places.size == 0:
                break
            others = self._draw_whole(model, places.size, rng)
            self._replace(rows, places, others, {})
        self._fill(rows, rng)
        return write_rows(template, rows)

    def _draw_whole(
        self, model: GraphicalModel, n: int, rng: np.random.Generator
    ) -> DrawnRows:
        """Draw all columns of rows."""
        codes = list(sample(model, n, rng))
        rows = self._draw_numbers(self.domain_, codes, rng, {})
        self._relations.derive(rows, {})
        return rows

    def _places_to_replace(
        self, rows: DrawnRows, given: Mapping[Any, NDArray[Any]]
    ) -> NDArray[np.intp]:
        """Return the places of rows that break relations, some of them repeatedly."""
        # Rows are rejected until all keep the relations: their law is that of the model
        # given the relations, of all laws that keep them the nearest to the model. Rows
        # that keep them are rare in some models, so each place comes as often as makes
        # `_LEAST_OF_A_ROUND` draws, of which the first that keeps them is taken. After
        # `_MOST_ROUNDS`, some rows may still break them.
        places = np.flatnonzero(self._relations.find_broken(rows, given))
        if places.size == 0:
            return places
        return np.resize(places, max(places.size, _LEAST_OF_A_ROUND))

    def _fill(self, rows: DrawnRows, rng: np.random.Generator) -> None:
        """Repeat rows that keep the relations in place of the last that do not."""
        is_broken = self._relations.find_broken(rows, {})
        if not is_broken.any():
            return
        intact_places = np.flatnonzero(~is_broken)
        if intact_places.size == 0:
            raise ValueError(
                f"no row that the model draws keeps the relations {self.relations_}: "
                "leave some out, or declare bins that fit them"
            )
        broken_places = np.flatnonzero(is_broken)
        sources = rng.choice(intact_places, broken_places.size)
        rows.replace(broken_places, rows, sources)

    def _replace(
        self,
        rows: DrawnRows,
        places: NDArray[np.intp],
        others: DrawnRows,
        given: Mapping[Any, NDArray[Any]],
    ) -> None:
        """Put other rows that keep the relations in the place of those that do not."""
        intact = np.flatnonzero(~self._relations.find_broken(others, given))
        # A place has several rows in a row: the first that is intact is taken.
        distinct_places, first = np.unique(places[intact], return_index=True)
        rows.replace(distinct_places, others, intact[first])

    def _set_relations(self, relations: Relations) -> None:
        """Set what holds in all rows."""
        self._relations = relations
        self.relations_ = list(relations.texts)

    def _warn_redrawn(self) -> None:
        """Warn if most rows that the model draws break relations."""
        if not self.relations_:
            return
        rng = self._generator("relations")
        rows = self._draw_whole(self.model_, _CHECKED_ROWS, rng)
        share = self._relations.find_broken(rows, {}).mean()
        if share > _MOST_REDRAWN:
            warn(
                f"about {share:.0%} of the rows that the model draws break the "
                f"relations {self.relations_}, or have sums beyond their declared ends, "
                "and are drawn again: synthetic rows have the distribution of the few "
                "others. Declare ends that sums keep, and relations that most rows do",
                UserWarning,
                about="guide/synthetic_relations#how-they-are-kept",
                stacklevel=level_of_the_caller(),
            )

    def _draw_numbers(
        self,
        domain: Domain,
        codes: Sequence[NDArray[np.integer]],
        rng: np.random.Generator,
        given: Mapping[Any, NDArray[Any]],
    ) -> DrawnRows:
        """Draw numbers within the bins of rows, with the shapes and the order of the fit."""
        order = self._order()
        return draw_rows(domain, codes, rng, order, self._shapes, given)

    def _order(self) -> tuple[tuple[Any, Any], ...]:
        """List the pairs of columns of which the first is never above the second."""
        return read_order([*(self.structural_zeros or ()), *self._relations.rules])

    def _zeros(self, relations: Relations, domain: Domain) -> Zeros:
        """List the cells that cannot occur."""
        max_cells = int(self.max_cells)
        return read_zeros(self.structural_zeros, domain, relations, max_cells)

    def _fit_again(self, rng: np.random.Generator) -> tuple[GraphicalModel, float]:
        """Fit a model to noisier counts; return its number of records, too."""
        zeros = self._zeros(self._relations, self.domain_)
        # With as much noise again, the fits differ by as much as the noise decides.
        noisier = []
        for marginal in self.marginals_:
            noise = rng.normal(0, marginal.std_error, marginal.shape)
            noisier.append(replace(marginal, counts=marginal.counts + noise))
        fitted = fit_table(
            self.domain_.sizes,
            noisier,
            zeros=zeros,
            max_iter=int(self.max_iter),
            tol=float(self.tol),
        )
        return fitted.model, fitted.total

    def sample_batches(
        self, n_samples: int | None = None, *, batch_size: int = 1 << 18
    ) -> Iterator[Any]:
        """Draw synthetic rows, a batch at a time, in the memory of one batch.

        Parameters
        ----------
        n_samples : int, optional
            How many in all, at least 0; by default the estimated number of records.
        batch_size : int, default=262_144
            How many rows a batch has, at least 1; the last one may have fewer.

        Returns
        -------
        iterator of the same kind as X of `fit`
            Tables, as `sample` returns them. Each call draws new rows, of the model as it is at the call. If they fit
            into one batch, it is what `sample` would have returned.

        Raises
        ------
        NotFittedError
            Before `fit`; at the call, as all errors.
        TypeError, ValueError
            If a number is no integer, or too small.

        See Also
        --------
        sample : All rows at once.

        Notes
        -----
        **Privacy.** Post-processing of the model: free.

        Each row has the law of the model. Within a batch, counts are as even as `sample` makes them; batches are
        independent, so the variances of their counts add up. In batches of one row, which are independent rows, the
        count of a value of probability p has variance ``n_samples * p * (1 - p)``; in larger ones, the count of a value
        of the column that is drawn first has a variance of at most 1/2 a batch.

        Under a rule ``(column, "<=", column)`` of `structural_zeros`, rows of a batch exchange numbers within bins.
        Where there is none to exchange with, in batches of less than some hundred rows, means move.

        Examples
        --------
        >>> import pandas as pd
        >>> from skdp import DPMarginalSynthesizer
        >>> people = pd.DataFrame({"smokes": ["yes", "no", "no", "no"] * 250})
        >>> synthesizer = DPMarginalSynthesizer(domain={"smokes": ["yes", "no"]}, random_state=0).fit(people)
        >>> for rows in synthesizer.sample_batches(1_000, batch_size=400):
        ...     print(len(rows), (rows["smokes"] == "yes").sum())
        400 100
        400 100
        200 50
        """
        check_is_fitted(self)
        size = check_size(batch_size, name="batch_size", least=1)
        n, rng = self._start_sample(n_samples)
        # Of the model as it is now.
        sampler = copy(self)
        starts = range(0, n, size)
        model = self.model_
        return (
            sampler._draw_table(model, min(size, n - start), rng) for start in starts
        )

    def _start_sample(self, n_samples: int | None) -> tuple[int, np.random.Generator]:
        """Return the number of rows to draw, and a generator that no other call has."""
        self._check_whole_rows()
        check_n_samples(n_samples)
        rng = self._generator("sample", self._calls.advance())
        if n_samples is None:
            n_samples = round(self.n_rows_)
        return int(n_samples), rng

    def fit_transform(self, X: TableLike, y: Any = None, **fit_params: Any) -> Any:
        """Fit to a table, and transform it; with `protect`, given the target.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            As for `fit`.
        y : 1-D array-like of shape (n_samples,), optional
            As for `fit`. With `protect`, the protected columns of X are drawn given the target too, which `transform`
            does not know: so that models of it find in the rows what they would in X.
        **fit_params : dict
            Further arguments of `fit`.

        Returns
        -------
        same kind as X
            As `transform` returns it.

        Raises
        ------
        TypeError, ValueError
            As for `fit` and `transform`.
        BudgetExceeded
            If the ledger does not cover it.
        """
        if self.protect is None or y is None:
            return super().fit_transform(X, y, **fit_params)
        self.fit(X, y, **fit_params)
        table = read_input(self, X, reset=False, least=0)
        places = self._redrawn(table.names) or []
        refuse_protected_levels(X, [table.names[place] for place in places])
        columns = self._redraw_rows(with_target(table, y))
        return as_asked(self, table.rebuild(columns[:-1], table.names))

    def transform(self, X: TableLike) -> Any:
        """Replace rows by synthetic ones, or draw some of their columns again.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            The columns of `fit`. Values of columns that are drawn again are not read, and may all be missing: a
            dataframe of the library that `fit` saw may also come without some or all of these columns, as long as it
            has another one.

        Returns
        -------
        same kind as X
            Without `redraw`, as many synthetic rows as X has, unrelated to its rows and to a target beside them, with a
            new index. With it, or with `protect`, the rows of X with those columns drawn from the model given the
            others, which are released unprotected.

        Raises
        ------
        TypeError, ValueError
            If X has other columns, or undeclared values that are not handled.

        Notes
        -----
        **Privacy.** The number of rows shows that of X. If X is the table of `fit`, the guarantee of these rows is
        ``guarantee_.to("replace")``, with twice the epsilon; `sample` without a number keeps `guarantee_`.
        """
        check_is_fitted(self)
        features = self.domain_.columns[: self.n_features_in_]
        table = self._complete_table(X, features)
        if table is None:
            table = read_input(self, X, reset=False, least=0)
            check_names(self, table, features)
        rng = self._generator("transform", self._calls.advance())
        places = self._redrawn(features)
        if places is None:
            template = public_template(table, self.domain_.select(features))
            # The target, which relations may name, is drawn too.
            further = self._template.columns[len(features) :]
            template = Table(
                self.domain_.columns, (*template.columns, *further), template.native
            )
            n_rows = len(table.columns[0])
            columns = self._draw_columns(template, self.model_, n_rows, rng)
            return as_asked(self, assemble(table, columns[: len(features)], features))
        refuse_protected_levels(X, [features[place] for place in places])
        redrawn = self._redraw_columns(table, features, places, rng)
        return as_asked(self, table.rebuild(redrawn, features))

    def _complete_table(self, X: Any, features: Sequence[Any]) -> Table | None:
        """Add empty columns for those that are drawn again and that X lacks; None if it lacks none."""
        redraws = bool(self._protected) or self.redraw is not None
        if not redraws or isinstance(X, np.ndarray) or not is_frame(X):
            return None
        table = read_table(X)
        places = self._redrawn(features) or []
        absent = {features[place] for place in places} - set(table.names)
        if not absent or not table.names:
            return None
        is_of_fit = type(table.native) is type(self._template.native)
        others = tuple(name for name in features if name not in absent)
        if not is_of_fit or table.names != others:
            return None
        # Of what is drawn again, nothing but the dtype is looked at: that of `fit`, whose
        # columns are empty. A target is the last of them.
        columns = dict(zip(features, self._template.columns, strict=False))
        columns.update(zip(others, table.columns, strict=True))
        return Table(tuple(features), tuple(columns.values()), X)

    def _redraw_rows(self, table: Table) -> list[Any]:
        """Return the columns of a table with its target, the protected ones drawn again."""
        rng = self._generator("transform", self._calls.advance())
        names = self.domain_.columns
        places = [names.index(name) for name in self._protected]
        return self._redraw_columns(table, names, places, rng)

    def _redrawn(self, features: Sequence[Any]) -> list[int] | None:
        """Return the numbers of the columns that are drawn again, None for whole rows."""
        if self._protected:
            places = [
                features.index(name) for name in self._protected if name in features
            ]
            if not places:
                raise ValueError(
                    f"protect={list(self._protected)} names the target alone, and "
                    "transform returns the other columns: fit it to a table that holds "
                    "the target, or use SyntheticResampler"
                )
            return places
        if self.redraw is None:
            return None
        if isinstance(self.redraw, str) or not isinstance(self.redraw, Iterable):
            raise TypeError(
                f"redraw must be a list of column names, got "
                f"{type(self.redraw).__name__}"
            )
        names = list(self.redraw)
        is_distinct = names and len(set(names)) == len(names)
        if not is_distinct or not set(names) <= set(features):
            raise ValueError(
                f"redraw must name columns of X, each once, got {names}; X has "
                f"{list(features)}"
            )
        return list(map(list(features).index, names))

    def _redraw_columns(
        self,
        table: Table,
        features: Sequence[Any],
        places: Sequence[int],
        rng: np.random.Generator,
    ) -> list[Any]:
        """Return the columns of a table, some of them drawn again."""
        conditions = self._read_conditions(table, places)
        columns = dict(zip(features, table.columns, strict=True))
        # Numbers that stay, and that others have to be below or above.
        names = [features[place] for place in places]
        given = {}
        for name in [*itertools.chain(*self._order()), *self._relations.columns]:
            if name in columns and name not in names:
                given[name] = values_of(self.domain_[name], columns[name])
        domain = self.domain_.select(names)
        template = public_template(_select(table, places), domain)
        # The target is not known: it is drawn too, and dropped.
        hidden = range(len(table.names), len(conditions))
        drawn_places = [*places, *hidden]
        rows = self._draw_rest(domain, conditions, drawn_places, rng, given)
        for _ in range(_MOST_ROUNDS):
            broken = self._places_to_replace(rows, given)
            if broken.size == 0:
                break
            given_there = {name: values[broken] for name, values in given.items()}
            others = self._draw_rest(
                domain, conditions[:, broken], drawn_places, rng, given_there
            )
            self._replace(rows, broken, others, given_there)
        conditions[places] = rows.codes
        self._warn_of_broken(rows, given, conditions[: len(features)])
        drawn = write_rows(template, rows)
        columns |= zip(names, drawn, strict=True)
        return list(columns.values())

    def _warn_of_broken(
        self,
        rows: DrawnRows,
        given: Mapping[Any, NDArray[Any]],
        codes: NDArray[np.int64],
    ) -> None:
        """Name the rules and relations that rows break, as their other columns leave no value."""
        # These rows are released with all their columns, so what is named here adds
        # nothing; their number is left out, as all that is said of rows.
        broken: dict[Any, None] = {}
        for clique, is_impossible in self._zeros(self._relations, self.domain_):
            names = tuple(self.domain_.columns[column] for column in clique)
            is_drawn = not set(names).isdisjoint(rows.domain.columns)
            # A target that is not there has no value.
            is_returned = is_drawn and max(clique) < len(codes)
            if is_returned and is_impossible[tuple(codes[list(clique)])].any():
                broken[names] = None
        for below, above in self._order():
            is_drawn = not {below, above}.isdisjoint(rows.domain.columns)
            if is_drawn and rows.has(below, given) and rows.has(above, given):
                low, low_is_missing = rows.read(below, given)
                high, high_is_missing = rows.read(above, given)
                if ((low > high) & ~low_is_missing & ~high_is_missing).any():
                    broken[below, above] = None
        if self._relations.find_broken(rows, given).any():
            broken |= dict.fromkeys(self.relations_)
        if broken:
            warn(
                f"in some rows, the columns that stay leave no likely value for "
                f"{list(rows.domain.columns)}: they break what structural_zeros or "
                f"relations say of {list(broken)}",
                UserWarning,
                about="guide/synthetic_rules#how-rules-are-kept",
                stacklevel=level_of_the_caller(),
            )

    def _draw_rest(
        self,
        domain: Domain,
        conditions: NDArray[np.int64],
        places: Sequence[int],
        rng: np.random.Generator,
        given: Mapping[Any, NDArray[Any]],
    ) -> DrawnRows:
        """Draw columns again, of which those of the domain are returned."""
        drawn = redraw_evenly(self.model_, conditions, places, rng)
        codes = list(drawn[: len(domain.columns)])
        rows = self._draw_numbers(domain, codes, rng, given)
        self._relations.derive(rows, given)
        return rows

    def _read_conditions(
        self, table: Table, places: Sequence[int]
    ) -> NDArray[np.int64]:
        """Code the columns that stay."""
        n_features = len(table.names)
        n_columns = len(self.domain_.columns)
        # A column that is left out of X is empty.
        n_rows = max(map(len, table.columns))
        # Codes of the columns that stay are conditions; the target is not among them.
        # (n_columns of the model, n_rows); what is drawn or unknown is left at 0.
        rows = np.zeros((n_columns, n_rows), np.int64)
        conditions = sorted(set(range(n_features)) - set(places))
        if conditions:
            condition_table = _select(table, conditions)
            codes = read_codes(
                condition_table,
                self.domain_.select(condition_table.names),
                self.handle_unknown,
                self._others,
                keeps_rows=bool(self._protected),
            )
            for place, column_codes in zip(conditions, codes, strict=True):
                # What is ignored in `fit` is given the likeliest value here: a row
                # must have one.
                is_declared = column_codes < self.domain_.sizes[place]
                rows[place] = column_codes
                if not is_declared.all():
                    likeliest = self.model_.marginal([place]).argmax()
                    rows[place] = np.where(is_declared, column_codes, likeliest)
        return rows

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        """Return the names of the columns that `transform` returns: those of X.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns, where `fit` saw none; otherwise they must be the same.

        Returns
        -------
        ndarray of object
            The names.

        Raises
        ------
        ValueError
            If they are others.
        """
        check_is_fitted(self)
        names = self.domain_.columns[: self.n_features_in_]
        if input_features is None:
            return np.array(names, object)
        listed = np.array(input_features, object)
        if hasattr(self, "feature_names_in_") and tuple(listed) != names:
            raise ValueError(
                f"input_features is not equal to feature_names_in_: {list(names)}"
            )
        if len(listed) != len(names):
            raise ValueError(
                "input_features should have length equal to number of features "
                f"({len(names)})"
            )
        return listed

    def save(self, path: PathType | BinaryIO) -> None:
        """Write the fitted synthesizer to a file that may be shared as its samples may.

        It is `skdp.save` of a copy whose `domain` is the fitted one, and that has no ledger and no `random_state`, as a
        seed undoes the noise.

        Parameters
        ----------
        path : str, path or binary file
            Where to; a file that is there is replaced.

        Raises
        ------
        TypeError
            If a name, a value or a dtype is of a type that cannot be saved.
        """
        check_is_fitted(self)
        save(self._published(), path)

    def _published(self) -> Self:
        """Return a copy without secrets."""
        shared = {"domain": self.domain_, "ledger": None, "random_state": None}
        return copy(self).set_params(**shared)

    @classmethod
    def load(cls, path: PathType | BinaryIO) -> Self:
        """Read what `save` wrote, by `skdp.load`; nothing in the file is executed.

        Parameters
        ----------
        path : str, path or binary file
            The file.

        Returns
        -------
        DPMarginalSynthesizer
            Fitted, with ``random_state=None``, no ledger, and the fitted domain for its `domain`. It gives tables of
            the library and the dtypes of `fit`.

        Raises
        ------
        OSError
            If there is no such file.
        ImportError
            If it is about tables of a library that is not installed.
        ValueError
            If it is no such file, of another version, or damaged; the error names the part.
        """
        synthesizer = load(path)
        if not isinstance(synthesizer, cls):
            kind = type(synthesizer).__name__
            raise ValueError(f"the file holds no {cls.__name__}, but a {kind}")
        return synthesizer

    def _describe_fit(self) -> dict[str, Any]:
        """Return what `skdp.save` writes."""
        return describe_fit(self) if hasattr(self, "model_") else {}

    def _restore_fit(self, fitted: dict[str, Any]) -> None:
        """Take what `skdp.load` read."""
        restore_fit(self, fitted)


def _select(table: Table, places: Sequence[int]) -> Table:
    """Return some columns of a table."""
    names = []
    columns = []
    for place in places:
        names.append(table.names[place])
        columns.append(table.columns[place])
    return Table(tuple(names), tuple(columns), table.native)


def check_n_samples(n_samples: Any, name: str = "n_samples") -> None:
    if n_samples is not None:
        check_size(n_samples, name=name, least=0, most=_MOST_SAMPLES)


def _tabulate_scores(
    scores: Scores, domain: Domain, marginals: Sequence[Marginal]
) -> pd.DataFrame:
    """Make a table with a row for each pair, the strongest first."""
    rows = []
    for pair, (score, error) in scores.items():
        first, second = pair
        is_measured = False
        for marginal in marginals:
            is_measured = is_measured or set(pair) <= set(marginal.clique)
        names = (domain.columns[first], domain.columns[second])
        rows.append((*names, score, error, is_measured))
    rows.sort(key=lambda row: -row[2])  # by score
    columns = ["first", "second", "score", "std_error", "measured"]
    table = pd.DataFrame(rows, columns=columns)
    dtypes = {"score": float, "std_error": float, "measured": bool}
    return table.astype(dtypes).set_index(["first", "second"])
