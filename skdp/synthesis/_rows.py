"""Rows that are drawn from a fitted model: whole ones, or some columns of rows that are there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    PathType,
    TableLike,
    apply_set_output,
    check_names,
    level_of_the_caller,
    read_input,
)
from skdp.domain import Domain
from skdp.oracles import check_size
from skdp.pages import warn
from skdp.persistence import load, save
from skdp.synthesis._answers import ModelAnswers
from skdp.synthesis._persistence import Scores, describe_fit, restore_fit
from skdp.synthesis.model import GraphicalModel, Marginal, sample
from skdp.synthesis.selection import find_zeros, fit_table
from skdp.synthesis.tables import (
    DrawnRows,
    assemble,
    draw_rows,
    make_frame,
    make_generator,
    public_template,
    sample_template,
    select_columns,
    write_rows,
)
from skdp.tables import Table, read_table

_MAX_SAMPLES = 10**9

MAX_ROUNDS = 200
"""Rounds in which rows that break a constraint are drawn again."""

_MIN_ROUND_ROWS = 256
"""With few rows to replace, each is drawn several times in a round."""

_CHECKED_ROWS = 2_000
"""For the proportion of rows that break a constraint: its standard error is at most 1.2 %."""

_MAX_BROKEN = 0.5


class RowTransformer(TransformerMixin, ModelAnswers):
    """The part of a synthesizer that draws rows from the fitted model; and its file."""

    random_state: int | None
    max_cells: int
    _features: tuple[Any, ...]
    _template: Table
    _calls: CallCounter
    _scores: Scores

    @property
    def pair_scores_(self) -> pd.DataFrame:
        """The noisy scores of pairs."""
        check_is_fitted(self)
        return _tabulate_scores(self._scores, self.domain_, self.marginals_)

    def _generator(self, *key: Any) -> np.random.Generator:
        """Return the generator of post-processing, which shares no random bits with the noise."""
        return make_generator(self.random_state, *key)

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
        """Draw rows of a model, with all columns of the table of `fit` and its target."""
        columns = self._draw_columns(self._template, model, n, rng)
        return assemble(self._template, list(columns.values()), list(columns))

    def _draw_columns(
        self, template: Table, model: GraphicalModel, n: int, rng: np.random.Generator
    ) -> dict[Any, Any]:
        """Draw rows that satisfy all constraints, as columns of a template; derived ones are computed."""
        like = sample_template(template, self.domain_)
        rows = self._draw_rows(model, n, rng)
        broken = np.flatnonzero(self._find_broken(like, rows))
        for _ in range(MAX_ROUNDS):
            if broken.size == 0:
                break
            # Each row comes as often as makes `_MIN_ROUND_ROWS` draws, of which the first
            # that satisfies all constraints is taken.
            places = np.resize(broken, max(broken.size, _MIN_ROUND_ROWS))
            others = self._draw_rows(model, places.size, rng)
            valid = np.flatnonzero(~self._find_broken(like, others))
            replaced, first = np.unique(places[valid], return_index=True)
            rows.replace(replaced, others, valid[first])
            broken = np.setdiff1d(broken, replaced)
        self._repeat_valid(rows, broken, rng)
        columns = dict(
            zip(self.domain_.columns, write_rows(template, rows), strict=True)
        )
        if self.domain_.derived:
            drawn = self._write(like, rows)
            derived = read_table(self.domain_.add_derived(drawn))
            computed = dict(zip(derived.names, derived.columns, strict=True))
            columns |= {name: computed[name] for name in self.domain_.derived}
        # The target, which is the last column of the domain, comes last.
        order = [*self._features, *self.domain_.derived, *self.domain_.columns]
        return {name: columns[name] for name in order}

    def _draw_rows(
        self, model: GraphicalModel, n: int, rng: np.random.Generator
    ) -> DrawnRows:
        """Draw rows of a model, without checking constraints."""
        codes = list(sample(model, n, rng))
        return draw_rows(self.domain_, codes, rng, self._shapes)

    def _write(self, like: Table, rows: DrawnRows) -> Any:
        """Make a table of rows, which is a dataframe with names also if the template is an array."""
        names = self.domain_.columns
        columns = write_rows(like, rows)
        if isinstance(like.native, np.ndarray):
            return pd.DataFrame(dict(zip(names, columns, strict=True)))
        return make_frame(like, columns, names)

    def _find_broken(self, like: Table, rows: DrawnRows) -> NDArray[np.bool_]:
        """Mark the rows that break a constraint."""
        if not self.domain_.constraints:
            return np.zeros(rows.n_rows, bool)
        return ~self.domain_.check_constraints(self._write(like, rows))

    def _repeat_valid(
        self, rows: DrawnRows, broken: NDArray[np.intp], rng: np.random.Generator
    ) -> None:
        """Replace rows that break a constraint by copies of rows that satisfy all."""
        if broken.size == 0:
            return
        valid = np.setdiff1d(np.arange(rows.n_rows), broken)
        if valid.size == 0:
            raise ValueError(
                f"no row that the model draws satisfies the constraints "
                f"{list(self.domain_.constraints)}: leave some out, or declare bins "
                "that fit them"
            )
        rows.replace(broken, rows, rng.choice(valid, broken.size))

    def _warn_of_constraints(self) -> None:
        """Warn if most rows that the model draws break a constraint."""
        if not self.domain_.constraints:
            return
        rng = self._generator("constraints")
        rows = self._draw_rows(self.model_, _CHECKED_ROWS, rng)
        broken = self._find_broken(sample_template(self._template, self.domain_), rows)
        if broken.mean() > _MAX_BROKEN:
            warn(
                f"about {broken.mean():.0%} of the rows that the model draws break the "
                f"constraints {list(self.domain_.constraints)} and are drawn again: "
                "synthetic rows have the distribution of the few others. Declare bins "
                "that fit them, or a derived column",
                UserWarning,
                about="guide/synthetic_constraints",
                stacklevel=level_of_the_caller(),
            )

    def _fit_again(self, rng: np.random.Generator) -> tuple[GraphicalModel, float]:
        """Fit a model to noisier counts; return its number of records, too."""
        zeros = find_zeros(self.domain_, int(self.max_cells))
        # With as much noise again, the fits differ by as much as the noise decides.
        noisier = []
        for marginal in self.marginals_:
            noise = rng.normal(0, marginal.std_error, marginal.shape)
            noisier.append(replace(marginal, counts=marginal.counts + noise))
        fitted = fit_table(
            self.domain_.sizes,
            noisier,
            zeros=zeros,
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
        check_is_fitted(self)
        check_n_samples(n_samples)
        rng = self._generator("sample", self._calls.advance())
        if n_samples is None:
            n_samples = round(self.n_rows_)
        return int(n_samples), rng

    def transform(self, X: TableLike) -> Any:
        """Replace rows by as many synthetic ones.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            The columns of `fit`.

        Returns
        -------
        same kind as X
            As many synthetic rows as X has, unrelated to its rows and to a target beside them, with a new index.

        Raises
        ------
        TypeError, ValueError
            If X has other columns.

        See Also
        --------
        DPColumnSynthesizer : Resamples some columns of each row, and keeps its other columns.

        Notes
        -----
        **Privacy.** The number of rows shows that of X. If X is the table of `fit`, the guarantee of these rows is
        ``guarantee_.to("replace")``, with twice the epsilon; `sample` without a number keeps `guarantee_`.
        """
        check_is_fitted(self)
        features = self._features
        table = read_input(self, X, reset=False, least=0)
        check_names(self, table, features)
        # The columns of an array have the positions of the columns of `fit`.
        table = Table(tuple(features), table.columns, table.native)
        rng = self._generator("transform", self._calls.advance())
        drawn = [name for name in features if name in self.domain_.columns]
        domain = self.domain_.select(drawn)
        template = public_template(select_columns(table, drawn), domain)
        # The target, which constraints may name, is drawn too.
        further = self._template.columns[len(drawn) :]
        template = Table(
            self.domain_.columns, (*template.columns, *further), template.native
        )
        n_rows = len(table.columns[0])
        columns = self._draw_columns(template, self.model_, n_rows, rng)
        kept = [columns[name] for name in features]
        return apply_set_output(self, assemble(table, kept, features))

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
        names = self._features
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


def check_n_samples(n_samples: Any, name: str = "n_samples") -> None:
    if n_samples is not None:
        check_size(n_samples, name=name, least=0, most=_MAX_SAMPLES)


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
