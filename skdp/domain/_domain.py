"""The declared values of the columns of a table, and the codes of their combinations."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, reduce
from itertools import chain
from typing import Any, Self, TypeAlias, TypeVar
from uuid import uuid4

import numpy as np
import pandas as pd

from skdp._arrays import Codes, ColumnName, Mask, TableLike
from skdp._json import value_from_json
from skdp.domain._attributes import (
    Categories,
    FoundCategories,
    Interval,
    Release,
    find_decoder,
    find_order,
    name_column_in_errors,
    type_of_attribute,
)
from skdp.domain._column_drafts import check_draft, draft_columns
from skdp.domain._expressions import (
    Expression,
    Operand,
    declare_operand,
    describe_excluded,
    find_excluded,
    parse_constraints,
    parse_derived,
)
from skdp.domain._toml import guarantee_fields, parse_toml, write_toml
from skdp.pages import warn
from skdp.privacy import PrivacyGuarantee, format_html, list_releases
from skdp.randomness import check_type
from skdp.tables import (
    Table,
    call_safely,
    is_frame,
    library_of,
    to_column,
    wrap_table,
)


class Domain(Mapping[Any, Categories | Interval]):
    """Declared values of the columns of a table.

    Declare a domain from public knowledge: the values that occur in a table are private.
    A domain is a mapping of column name to values: ``domain["age"]`` are the values of a
    column, ``list(domain)`` are the names, and ``domain | {"sex": ["f", "m"]}`` is a
    domain with a further column.

    Parameters
    ----------
    columns : mapping of column name to values, or Domain
        A list of values per column, `Categories` with an order, or an `Interval`. None
        (also nan, ``pd.NA``) among the values declares missing as a value. A column may
        have a single value. The constraints and derived columns of a Domain are kept,
        and `constraints` and `derived` are added to them.
    constraints : list of str, default=()
        Expressions that are true in every row, such as ``"end >= start"`` or
        ``"not (sex == 'male' and pregnant == 'yes')"``, or for every person
        (``"count(ward == 'birth') <= 1"`` or ``"last(died == 'yes')"``, for
        `DPLinkedSynthesizer`). They are true in all rows of synthesizers; other
        estimators ignore them.
    derived : mapping of column name to str, optional
        Columns that are computed from declared columns, such as
        ``{"total": "a + b"}``. `DPMarginalSynthesizer` computes them in synthetic rows;
        other estimators ignore them.

    Attributes
    ----------
    columns : tuple
        The column names.
    sizes : tuple of int
        The number of values of each column.
    size : int
        The number of cells of the full Cartesian product.
    constraints : tuple of str
        The expressions of all constraints.
    derived : dict of column name to str
        The expressions of the derived columns.
    guarantee : PrivacyGuarantee or None
        The guarantee of all releases that found values together, None if all values are
        declared.

    Raises
    ------
    TypeError
        If `columns` is not a mapping, or a column has values of several types, such as
        1 and "1".
    ValueError
        If a column has no values or a duplicate (1 and 1.0 are equal), or if an
        expression has a form that is not allowed, or a name that is neither a column nor
        an earlier derived column.

    Notes
    -----
    **Expressions** consist of names of columns, numbers, ``+ - * /``, comparisons (also
    ``0 <= a <= b``), ``and``, ``or`` and ``not``. Calls, attributes and indexing are
    errors, except that constraints compare ``count(expression)``, the number of events
    of a person for which the expression is true, with whole numbers, or are
    ``first(expression)`` or ``last(expression)``: an event for which the expression is
    true is the first or the last one of the person. Names that are not identifiers
    require backquotes: ``"`hours per week` < 100"``. Text in quotes and truth values can
    be compared by ``==`` and ``!=``. The difference of two dates is a number of days, and a number added
    to a date is a number of days. A comparison with a missing value is false: for a
    missing ``end``, ``"end >= start"`` is false, and ``"end >= start or missing(end)"``
    is true. ``missing(column)`` is true for the missing values of a column.

    **Privacy.** A domain from `with_guarantee` states the privacy loss of finding its
    values. Each of its columns keeps the release, so a domain or a dict of columns of
    several found domains has all their releases, once each. An estimator that uses them
    does not charge this loss again, and its ``guarantee_`` is for its own release;
    `privacy_statement` adds the guarantee of each release to the total, once for all
    steps that use it. A copy of the values, such as ``found["age"].edges``, does not keep
    the release. Domains with equal values are equal, even if their guarantees differ.

    Examples
    --------
    >>> from skdp import Domain, Interval
    >>> domain = Domain({"age": Interval(edges=[0, 38, 120]), "sex": ["Female", "Male"]})
    >>> domain.size
    4
    >>> domain.cells().to_list()
    [('[0, 38)', 'Female'), ('[0, 38)', 'Male'), ('[38, 120]', 'Female'), ('[38, 120]', 'Male')]
    >>> Domain({"answer": [1, 1.0]})
    Traceback (most recent call last):
        ...
    ValueError: Column 'answer': expected distinct values, got duplicates.
    """

    releases: tuple[Release, ...] = ()  # Releases that found values
    _constraints: tuple[Expression, ...]

    def __init__(
        self,
        columns: Mapping[Any, Any] | Domain,
        *,
        constraints: Sequence[str | Expression] = (),
        derived: Mapping[Any, str] | None = None,
    ) -> None:
        # `columns` maps each column to its declared values, or is a domain to be
        # extended. `constraints` are expressions that are true in each row, and
        # `derived` maps names of computed columns to expressions.
        check_type("constraints", constraints, list | tuple, "a list of expressions")
        derived = derived or {}
        expected = "a mapping from column name to expression"
        check_type("derived", derived, Mapping, expected)
        releases: tuple[Release, ...] = ()
        if isinstance(columns, Domain):
            releases = columns.releases
            constraints = [*columns._constraints, *constraints]
            derived = {**columns.derived, **derived}
        if not isinstance(columns, Mapping):
            raise TypeError(
                "Domain requires a mapping from column name to values, or a Domain, "
                f"got {type(columns).__name__}."
            )
        self._attributes: dict[Any, Categories | Interval] = {}
        for name, values in columns.items():
            with name_column_in_errors(name):
                if not isinstance(values, Interval | Categories):
                    _check_is_no_pair(values)
                    values = Categories(values)
                self._attributes[name] = values
        # A domain in which nothing was found has a release without columns.
        found = list_releases(self._attributes)
        self.releases = tuple(dict.fromkeys([*releases, *found]))
        # The type of each column, for expressions; derived columns are added.
        self._operands: dict[Any, Operand] = {
            name: declare_operand(type_of_attribute(attribute), attribute)
            for name, attribute in self._attributes.items()
        }
        self._derived = parse_derived(derived, self._operands)
        self._constraints = parse_constraints(constraints, self._operands)
        # Constraints of another domain were checked when it was made.
        new = [c for c in self._constraints if c not in constraints]
        self._warn_of_missing(new, stacklevel=3)

    def _warn_of_missing(
        self, constraints: Iterable[Expression], *, stacklevel: int
    ) -> None:
        """Warn of constraints that are false in all rows without a value of a column that declares missing values."""
        for constraint in constraints:
            if excluded := self._list_excluded(constraint):
                text = describe_excluded(constraint, excluded)
                warn(text, UserWarning, about="guide/domains", stacklevel=stacklevel)

    def _list_excluded(self, constraint: Expression) -> list[Any]:
        """List the columns whose declared missing values a constraint on rows excludes without naming them."""
        declaring = []
        for column in self._list_read(constraint):
            x = self[column]
            if x.missing if isinstance(x, Interval) else None in x.values:
                declaring.append(column)
        return find_excluded(constraint, declaring, self._derived, self._operands)

    @property
    def constraints(self) -> tuple[str, ...]:  # numpydoc ignore=RT01
        """The constraints, as declared."""
        return tuple(constraint.text for constraint in self._constraints)

    @property
    def derived(self) -> dict[Any, str]:  # numpydoc ignore=RT01
        """The expressions of the derived columns, as declared."""
        return {name: derived.text for name, derived in self._derived.items()}

    @property
    def guarantee(self) -> PrivacyGuarantee | None:  # numpydoc ignore=RT01
        """The guarantee of all releases that found values together, or None."""
        guarantees = [release.guarantee for release in self.releases]
        return reduce(operator.add, guarantees) if guarantees else None

    @property
    def columns(self) -> tuple[Any, ...]:  # numpydoc ignore=RT01
        """The column names."""
        return tuple(self._attributes)

    @property
    def sizes(self) -> tuple[int, ...]:  # numpydoc ignore=RT01
        """The number of values of each column; ValueError for an `Interval` with an open end."""
        sizes = []
        for name, values in self._attributes.items():
            with name_column_in_errors(name):
                sizes.append(len(values))
        return tuple(sizes)

    @property
    def size(self) -> int:  # numpydoc ignore=RT01
        """The number of cells of the full Cartesian product."""
        return math.prod(self.sizes)

    def __getitem__(self, column: object) -> Any:
        return self._attributes[column]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._attributes)

    def __len__(self) -> int:
        return len(self._attributes)

    def __bool__(self) -> bool:
        return True  # a domain without columns is not absent

    def __or__(self, other: object) -> Domain:
        if not isinstance(other, Mapping):
            return NotImplemented
        joined = {**self, **other}
        facts = other if isinstance(other, Domain) else Domain({})
        constraints = dict.fromkeys([*self.constraints, *facts.constraints])
        derived = {**self.derived, **facts.derived}
        return Domain(joined, constraints=list(constraints), derived=derived)

    def __ror__(self, other: object) -> Domain:
        if not isinstance(other, Mapping):
            return NotImplemented
        return Domain(other) | self

    def __eq__(self, other: object) -> bool:
        # The order determines the joint codes.
        return isinstance(other, Domain) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        """Return the fields by which domains are compared."""
        columns = tuple(self._attributes.items())
        return columns, self.constraints, tuple(self.derived.items())

    def __repr__(self) -> str:
        columns = [f"{name!r:.200}: {self[name]!r}" for name in self.columns]
        options = ""
        if self._constraints:
            options += f", constraints={list(self.constraints)!r}"
        if self._derived:
            options += f", derived={self.derived!r}"
        return f"Domain({{{', '.join(columns)}}}{options})"

    def _repr_html_(self) -> str:
        values = [[str(name)[:200], repr(self[name])] for name in self.columns]
        table = pd.DataFrame(values, columns=["column", "values"])
        derived = [f"{name} = {text}" for name, text in self.derived.items()]
        return format_html("Domain", [table], *derived, *self.constraints)

    def select(self, columns: Iterable[Any]) -> Self:
        """Return the domain of some of the columns.

        Constraints and derived columns that read other columns are omitted.

        Parameters
        ----------
        columns : iterable
            Column names. The result has their order.

        Returns
        -------
        Domain
            The smaller domain.

        Raises
        ------
        TypeError, ValueError
            If `columns` is a single name, has an unknown column, or has a column twice.
        """
        if isinstance(columns, str):
            raise TypeError("`columns` must be a list of names, got a str.")
        columns = list(columns)
        declared = self.columns
        absent = [column for column in columns if column not in declared]
        if absent:
            raise ValueError(
                f"`columns` must be columns of the domain, {list(declared)}, got "
                f"{absent}."
            )
        if len(set(columns)) < len(columns):
            raise ValueError(f"`columns` must be distinct, got {columns}.")
        selected = copy(self)
        selected._attributes = {column: self[column] for column in columns}
        selected.releases = list_releases(selected._attributes)
        available = set(columns)
        selected._derived = {}
        for name, expression in self._derived.items():
            if expression.columns <= available:
                available.add(name)
                selected._derived[name] = expression
        selected._constraints = tuple(
            constraint
            for constraint in self._constraints
            if constraint.columns <= available
        )
        return selected

    def with_guarantee(
        self, guarantee: PrivacyGuarantee | None, *, release_id: str | None = None
    ) -> Self:
        """Return the domain with the guarantee of the release that found its values.

        All columns keep the guarantee, which replaces the guarantees that they have.

        Parameters
        ----------
        guarantee : PrivacyGuarantee or None
            Guarantee of the release. Its scope names the columns that were read; if empty,
            it becomes all columns of the domain. None states that the values are public.
        release_id : str, optional
            Identifier of the release, so that `privacy_statement` counts it once although
            several steps use the domain. By default a new identifier.

        Returns
        -------
        Domain
            An equal domain.

        Raises
        ------
        TypeError
            If `guarantee` is not a PrivacyGuarantee or None.

        Examples
        --------
        >>> from skdp import Domain, Interval, PrivacyGuarantee
        >>> found = PrivacyGuarantee(0.2, delta=1e-6, relation="add_remove", trust="central")
        >>> domain = Domain({"age": Interval(0, 128, bins=16)}).with_guarantee(found)
        >>> print(domain.guarantee)
        epsilon = 0.2, delta = 0.000001, central model, adding or removing one record's values of: age
        """
        if guarantee is None:
            return _set_releases(self, {})
        expected = "a PrivacyGuarantee or None"
        check_type("guarantee", guarantee, PrivacyGuarantee, expected)
        guarantee = replace(guarantee, scope=guarantee.scope or self.columns)
        release = Release(uuid4().hex if release_id is None else release_id, guarantee)
        return _set_releases(self, dict.fromkeys(self, (release,)), (release,))

    @classmethod
    def from_toml(cls, text: str) -> Self:
        r"""Read the text of a domain file, written by `to_toml` or by hand.

        The file has a table ``[columns.NAME]`` for each column, with the arguments of
        `Categories` (``values``, ``ordered``) or of `Interval`. Dates are written as
        ``2020-02-29`` and datetimes as ``2020-02-29T18:30:00``. For a list of values,
        ``missing = true`` appends None. A table without `low` or `high` is an `Interval` with an open end.

        Parameters
        ----------
        text : str
            Content of the file, not its path.

        Returns
        -------
        Domain
            Domain of the columns, in the order of the file.

        Raises
        ------
        TypeError, ValueError
            If the text is not a domain file.

        Examples
        --------
        >>> from skdp import Domain
        >>> text = '''
        ... [columns.age]
        ... low = 15
        ... high = 95
        ... bins = 16
        ...
        ... [columns."marital.status"]
        ... values = ["never married", "married", "divorced", "widowed"]
        ... missing = true
        ... '''
        >>> domain = Domain.from_toml(text)
        >>> domain.sizes
        (16, 5)
        >>> Domain.from_toml(domain.to_toml()) == domain
        True
        >>> Domain.from_toml("[columns.age]\nlow = 15")
        Domain({'age': Interval(15, None)})
        """
        content = parse_toml(text)
        domain = cls(
            content["columns"],
            constraints=content.get("constraints", ()),
            derived=content.get("derived"),
        )
        if "guarantee" in content:
            domain = add_guarantee(domain, content["guarantee"])
        return domain

    @classmethod
    def from_frame(
        cls, X: TableLike, *, bins: int | None = None, max_values: int = 100
    ) -> Self:
        """Declare the values that occur in a public table.

        Boolean columns get both values, and columns of an ordered categorical dtype or an
        Enum get all its categories. Other columns get a sorted list of the values that
        occur. Numbers with more than 10 distinct values get an `Interval` with round
        bounds, and dates with more than `max_values` distinct values get bins of days, of
        1, 2, 3 or 6 months, or of years. Missing is declared if it occurs.

        Parameters
        ----------
        X : pandas, polars or pyarrow table
            A **public** table, such as a published sample or a census table, because each
            release with the domain reveals its values and range.
        bins : int, optional
            Largest number of bins of numbers or dates, and of listed numbers. None declares
            no bins of numbers (see `Interval`), and at most 10 bins of dates.
        max_values : int, default=100
            Largest number of listed values of text or dates.

        Returns
        -------
        Domain
            Domain of all columns of the table.

        Raises
        ------
        TypeError
            If X is not a table.
        ValueError
            If the values of a column cannot be declared, such as text, or dates that are
            written as numbers (20240131), with more than `max_values` distinct values,
            or infinite numbers.

        Notes
        -----
        **Privacy.** The domain is not private. For a private table, use `discover_domain`.

        Examples
        --------
        >>> import pandas as pd
        >>> from skdp import Domain
        >>> public = pd.DataFrame({"sex": ["f", "m", "f"] * 20, "age": range(20, 80)})
        >>> Domain.from_frame(public)
        Domain({'sex': ['f', 'm'], 'age': Interval(20, 80)})
        """
        n_bins = 10 if bins is None else bins
        check_draft(n_bins, max_values)
        if not is_frame(X):
            raise TypeError(
                f"X must be a pandas, polars or pyarrow table, got {type(X).__name__}."
            )
        columns, excluded = draft_columns(
            wrap_table(X),
            bins=n_bins,
            max_values=max_values,
            has_bins=bins is not None,
        )
        for name, reason in excluded.items():
            raise ValueError(f"Column {name!r} {reason}.")
        return cls(columns)

    def to_toml(self, *, comments: Mapping[Any, str] | None = None) -> str:
        """Write the domain as the text of a domain file.

        Parameters
        ----------
        comments : mapping of column name to text, optional
            Comments above the tables of some columns.

        Returns
        -------
        str
            TOML, from which `from_toml` loads an equal domain.

        Raises
        ------
        TypeError, ValueError
            If a column name is not text, None is not the last of the values, a datetime has nanoseconds, or an encoder
            has read values from the data, which a file would declare.

        Examples
        --------
        >>> from skdp import Domain, Interval
        >>> domain = Domain({"age": Interval(0, 100, bins=20), "sex": ["Female", "Male", None]})
        >>> print(domain.to_toml(comments={"age": "In years."}))
        # In years.
        [columns.age]
        low = 0
        high = 100
        bins = 20
        <BLANKLINE>
        [columns.sex]
        values = ["Female", "Male"]
        missing = true
        <BLANKLINE>
        """
        for name, values in self._attributes.items():
            if values.observed:
                raise ValueError(
                    f"Column {name!r} must be declared, got values that an encoder has read "
                    "from the data. Declare them from public knowledge."
                )
        options: dict[str, Any] = {}
        if self._constraints:
            options["constraints"] = list(self.constraints)
        if self._derived:
            options["derived"] = self.derived
        found = guarantee_fields(self)
        if found:
            options["guarantee"] = found if len(found) > 1 else found[0]
        return write_toml(self._attributes, comments or {}, options)

    def check_constraints(self, X: TableLike) -> Mask:
        """Mark the rows of a table that satisfy all constraints, except numbers and order of events of a person.

        The result is not private, because it depends on the values of each row.

        Parameters
        ----------
        X : dataframe or ndarray of shape (n_samples, n_features)
            A table with the columns that the constraints read.

        Returns
        -------
        ndarray of bool of shape (n_samples,)
            True where all constraints are satisfied.

        Raises
        ------
        ValueError
            If X lacks a column that an expression reads, or a value in such a column does
            not have the declared type.

        Examples
        --------
        >>> import pandas as pd
        >>> from skdp import Domain, Interval
        >>> stay = Domain({"start": Interval(0, 30), "end": Interval(0, 30)}, constraints=["end >= start"])
        >>> stay.check_constraints(pd.DataFrame({"start": [3, 4], "end": [7, 2]}))
        array([ True, False])
        """
        table = X if isinstance(X, Table) else wrap_table(X)
        get_operand = self._make_operand_reader(table)
        is_valid = np.ones(len(table.columns[0]), bool)
        for constraint in self._constraints:
            if constraint.is_on_rows:
                is_valid &= constraint.evaluate(get_operand).to_truth()
        return is_valid

    def _evaluate(self, constraint: Expression, X: TableLike) -> Mask:
        """Return True for each row of a table for which the expression of a constraint is true."""
        return constraint.evaluate(self._make_operand_reader(wrap_table(X))).to_truth()

    def _mark_limited(self, X: TableLike) -> Mask:
        """Mark the events that each constraint limits, or that violate it, in shape (n_constraints, n_events)."""
        table = wrap_table(X)
        get_operand = self._make_operand_reader(table)
        marked = np.empty((len(self._constraints), len(table.columns[0])), bool)
        for index, constraint in enumerate(self._constraints):
            is_true = constraint.evaluate(get_operand).to_truth()
            marked[index] = is_true != constraint.is_on_rows
        return marked

    def _compare_proportions(self, X: TableLike, Y: TableLike) -> dict[str, float]:
        """Compare the proportions of rows with the comparisons of each constraint between two tables.

        The result has, by constraint, the largest difference of the proportions of a comparison, or of its opposite if
        these are smaller, relative to the larger one.
        """
        readers = [self._make_operand_reader(wrap_table(table)) for table in (X, Y)]
        errors = {}
        for constraint in self._constraints:
            largest = 0.0
            for pair in zip(*map(constraint.compare, readers), strict=True):
                low, high = sorted(float(truth.mean()) for truth in pair)
                if low + high > 1:
                    low, high = 1 - high, 1 - low
                largest = max(largest, (high - low) / high if high else 0.0)
            errors[constraint.text] = largest
        return errors

    def _list_read(self, expression: Expression) -> list[Any]:
        """List the columns that an expression reads, directly or through derived columns."""
        read = set(expression.columns)
        for name in reversed(self._derived):
            if name in read:
                read |= self._derived[name].columns
        return [name for name in self.columns if name in read]

    def _list_limits(self, column: object) -> list[tuple[float, bool]]:
        """List the numbers with which constraints compare a column, with True for a limit after the number."""
        expressions = [*self._constraints, *self._derived.values()]
        limits = [limit for expression in expressions for limit in expression.limits]
        return [
            (number, is_after) for name, number, is_after in limits if name == column
        ]

    def add_derived(self, X: TableLike) -> Any:
        """Add the derived columns to a table, or replace them.

        Parameters
        ----------
        X : dataframe or ndarray of shape (n_samples, n_features)
            A table with the columns that the expressions read.

        Returns
        -------
        dataframe or ndarray
            Table of the same library with the derived columns at its end. A derived number
            or date is missing if a value that it reads is missing, or after a division by
            0; a comparison is then False.

        Raises
        ------
        ValueError
            If X lacks a column that an expression reads, or a value in such a column does
            not have the declared type.

        Examples
        --------
        >>> import pandas as pd
        >>> from skdp import Domain, Interval
        >>> hours = Domain({"work": Interval(0, 100), "sleep": Interval(0, 100)}, derived={"both": "work + sleep"})
        >>> hours.add_derived(pd.DataFrame({"work": [40], "sleep": [56]}))
           work  sleep  both
        0    40     56    96
        """
        table = wrap_table(X)
        if not self._derived:
            return X
        get_operand = self._make_operand_reader(table)
        columns = dict(zip(table.names, table.columns, strict=True))
        library = library_of(table.columns[0])
        for name, expression in self._derived.items():
            columns.pop(name, None)
            columns[name] = to_column(expression.compute(get_operand), library)
        return table.rebuild(list(columns.values()), list(columns))

    def _make_operand_reader(self, table: Table) -> Callable[[Any], Operand]:
        """Return a function from a name to the operand of this column, given or derived, in a table.

        An operand has the type and the values of a column, for expressions.
        """
        columns = dict(zip(table.names, table.columns, strict=True))

        @cache
        def get_operand(name: ColumnName) -> Operand:
            if name in self._derived:
                return self._derived[name].evaluate(get_operand)
            if name not in columns:
                raise ValueError(
                    f"X lacks column {name!r} of an expression of the domain, got "
                    f"columns {list(columns)}."
                )
            with name_column_in_errors(name):
                return call_safely(self._operands[name].with_column, columns[name])

        return get_operand

    def encode(self, columns: Iterable[Any]) -> list[Codes]:
        """Encode the columns of a table.

        Parameters
        ----------
        columns : iterable of 1-D arrays or series
            The column of values of each column of the domain, in order.

        Returns
        -------
        list of ndarray of unsigned integers
            Codes of each column: the index of each value among the declared values, or
            their number for values that are not declared.

        Raises
        ------
        ValueError
            If a column has a dtype without the declared values, such as text for an
            `Interval`.
        """
        codes = []
        for name, column in zip(self.columns, columns, strict=True):
            with name_column_in_errors(name):
                len(self[name])  # an error for an open end
                codes.append(call_safely(self[name].encode, column))
        return codes

    def decoders(self, like: Iterable[Any]) -> list[Callable[[Codes], Any]]:
        """Return a function for each column that converts codes to values, in the library of the column.

        Parameters
        ----------
        like : iterable of 1-D arrays or series
            A column of the wanted library for each column of the domain, in order. The
            dtypes of the results follow from the declared values. They have exactly the
            declared categories if the dtype of the column has categories, too. These are
            ordered if they are declared so, or if the column has ordered categories of
            pandas in the declared order.

        Returns
        -------
        list of callable
            A function from codes to values for each column. The code of a bin becomes its
            midpoint.

        Raises
        ------
        ValueError
            If the library of a column has no dtype for the declared values.
        """
        decoders = []
        for name, column in zip(self.columns, like, strict=True):
            with name_column_in_errors(name):
                order = call_safely(find_order, self[name], column)
                library = library_of(column)
                decoders.append(call_safely(find_decoder, self[name], library, order))
        return decoders

    def value_counts(self, X: TableLike) -> pd.Series[int]:
        """Count the records of a table in each combination of declared values.

        The counts are not private. Use them to measure the error of estimates.

        Parameters
        ----------
        X : dataframe or ndarray of shape (n_samples, n_features)
            Columns of the domain, in any order.

        Returns
        -------
        pandas.Series
            Number of records in each combination of values of the columns of X, with the
            index of ``estimate_counts`` of an encoder with ``strategy="joint"``.

        Raises
        ------
        ValueError
            If a column is not in the domain, or has values outside its domain.

        Examples
        --------
        >>> import pandas as pd
        >>> from skdp import Domain, Interval
        >>> domain = Domain({"sex": ["f", "m"], "age": Interval([0, 38, 120])})
        >>> domain.value_counts(pd.DataFrame({"sex": ["f", "f", "m"], "age": [20, 60, 70]}))
        sex  age
        f    [0, 38)      1
             [38, 120]    1
        m    [0, 38)      0
             [38, 120]    1
        Name: count, dtype: int64
        """
        table = wrap_table(X)
        undeclared = [name for name in table.names if name not in self.columns]
        if undeclared:
            declared = [name for name in self.columns if name in table.names]
            raise ValueError(
                f"X must have columns of the domain only, got {undeclared}. Select "
                f"declared columns, such as X[{declared or list(self.columns)}]."
            )
        domain = self.select(table.names)
        codes = domain.encode(table.columns)
        for name, size, column in zip(domain.columns, domain.sizes, codes, strict=True):
            if (column == size).any():
                raise ValueError(
                    f"Column {name!r} has values outside its domain; declare them, or "
                    "drop these rows."
                )
        # Cells without records count 0.
        counts = np.bincount(domain.join(codes), minlength=domain.size)
        return pd.Series(counts, domain.cells(), name="count")

    def join(self, codes: Sequence[Codes]) -> Codes:
        """Combine the codes of all columns into codes of the Cartesian product.

        The code of the last column varies fastest, as in ``numpy.ravel_multi_index``.

        Parameters
        ----------
        codes : sequence of ndarray of integers
            Codes of declared values for each column of the domain, in order.

        Returns
        -------
        ndarray of unsigned integers
            The joint code of each row, from 0 to ``size - 1``.

        Raises
        ------
        ValueError
            If the product has 2**63 cells or more.

        Examples
        --------
        >>> import numpy as np
        >>> from skdp import Domain
        >>> domain = Domain({"a": [0, 1], "b": ["x", "y", "z"]})
        >>> domain.join([np.array([0, 1]), np.array([2, 0])])
        array([2, 3], dtype=uint8)
        """
        sizes = self.sizes
        n_cells = math.prod(sizes)
        if n_cells >= 1 << 63:
            raise ValueError(
                f"The joint domain must have at most 2**63 - 1 cells, got {n_cells}."
            )
        # Horner's rule, ``((c_0 s_1 + c_1) s_2 + c_2) ...`` for codes c and sizes s, in the
        # narrowest dtype of all joint codes.
        dtype = np.min_scalar_type(n_cells)
        joint = np.array(codes[0], dtype=dtype)
        for size, code in zip(sizes[1:], codes[1:], strict=True):
            np.multiply(joint, dtype.type(size), out=joint)
            np.add(joint, code, out=joint, casting="unsafe")
        return joint

    def split(self, joint: Codes) -> list[Codes]:
        """Split joint codes into the codes of each column: the inverse of `join`.

        Parameters
        ----------
        joint : ndarray of integers
            Joint codes.

        Returns
        -------
        list of ndarray of unsigned integers
            Codes for each column of the domain, in order.
        """
        # The codes are the digits of the joint code in a mixed radix, the last column first.
        codes: list[Codes] = []
        for size in self.sizes[::-1]:
            divisor = joint.dtype.type(size)
            quotient = joint // divisor
            remainder = joint - quotient * divisor
            codes.append(remainder.astype(np.min_scalar_type(size)))
            joint = quotient
        return codes[::-1]

    def cells(self) -> pd.Index:
        """List the cells of the full Cartesian product in the order of the joint codes.

        Returns
        -------
        pandas.Index
            Index of the values or bins of a single column; MultiIndex for several columns.
        """
        check_closed(self)
        labels = [list(attribute.labels) for attribute in self._attributes.values()]
        if len(labels) == 1:
            # The dtype is object, because pandas would convert integers and None to floats.
            dtype = object if None in labels[0] else None
            name = self.columns[0]
            return pd.Index(labels[0], dtype=dtype, name=name, tupleize_cols=False)
        return pd.MultiIndex.from_product(labels, names=self.columns)


# A domain, or a subclass of it.
DomainType = TypeVar("DomainType", bound=Domain)


def _check_is_no_pair(values: object) -> None:
    """Raise an error for a tuple of two numbers, which may be meant as bounds."""
    if not isinstance(values, tuple) or len(values) != 2:
        return
    low, high = values
    if type(low) in (int, float) and type(high) in (int, float) and high - low > 1:
        raise ValueError(
            f"expected a list of values or an Interval, got the tuple {values}. Use "
            f"Interval{values} for a range, or the list {list(values)} for two values."
        )


def _set_releases(
    domain: DomainType,
    by_column: Mapping[Any, tuple[Release, ...]],
    releases: tuple[Release, ...] = (),
) -> DomainType:
    """Return a copy of a domain: its columns have the releases `by_column`, and the domain has these and `releases`."""
    found = copy(domain)
    found._attributes = {}
    for name, attribute in domain.items():
        found._attributes[name] = copy(attribute)
        found._attributes[name].releases = by_column.get(name, ())
    found.releases = tuple(dict.fromkeys(chain(releases, *by_column.values())))
    return found


def add_guarantee(domain: DomainType, fields: object) -> DomainType:
    """Return a domain with the releases that found its columns, from the fields of `guarantee_fields`."""
    by_column: dict[Any, tuple[Release, ...]] = dict.fromkeys(domain, ())
    for field in fields if isinstance(fields, list) else [fields]:
        keys = {"record", "release_id"}
        if not isinstance(field, dict) or field.keys() - {"columns"} != keys:
            raise ValueError(
                "`guarantee` must be a table with the keys record, release_id and "
                "columns (optional), got another value."
            )
        try:
            guarantee = PrivacyGuarantee.from_json(field["record"])
        except (TypeError, ValueError) as error:
            raise ValueError(f"`guarantee`: {error}") from None
        names = value_from_json(field.get("columns", list(domain)))
        if not isinstance(names, list) or any(
            name not in domain.columns for name in names
        ):
            raise ValueError(
                "`columns` of `guarantee` must be a list of columns of the domain, got "
                "another value."
            )
        guarantee = replace(guarantee, scope=guarantee.scope or domain.columns)
        for name in names:
            release = Release(str(field["release_id"]), guarantee)
            by_column[name] = (*by_column[name], release)
    return _set_releases(domain, by_column)


def copy_guarantee(domain: DomainType, *sources: object) -> DomainType:
    """Return a domain whose columns also keep the releases that found the values of `sources`."""
    releases = list_releases(sources)
    by_column = {
        name: tuple(dict.fromkeys([*attribute.releases, *releases]))
        for name, attribute in domain.items()
    }
    return _set_releases(domain, by_column, (*domain.releases, *releases))


def check_closed(declared: Mapping[Any, Any]) -> None:
    """Raise an error for an `Interval` with an open end, and for values that a release has to find."""
    for name, values in declared.items():
        if isinstance(values, FoundCategories) and values.is_open:
            raise ValueError(
                f"Column {name!r} must have declared values, got values to be found. Declare "
                "them, or use an estimator of the central model with `delta`."
            )
        if isinstance(values, Interval):
            with name_column_in_errors(name):
                len(values)


# Declared domains: a Domain, values by column name, lists of values in the order of the
# columns, or an Interval for all columns.
DomainLike: TypeAlias = Domain | Mapping[Any, Any] | Sequence[Any] | Interval
