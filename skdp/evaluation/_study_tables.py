"""A table of a study: its rows, what is protected, and its features as numbers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length

from skdp.base import Label, check_same_order
from skdp.domain import Domain, Interval
from skdp.metrics import read_privileged
from skdp.tables import is_frame


@dataclass(frozen=True, eq=False)
class StudyTable:
    """A table of a study of fairness: rows, target, groups, and the columns that are reported.

    >>> import pandas as pd
    >>> from skdp import Domain
    >>> from skdp.evaluation import StudyTable
    >>> people = pd.DataFrame({"sex": ["f", "m"] * 50, "hours": range(100)})
    >>> domain = Domain({"sex": ["f", "m"]})
    >>> StudyTable(people, people["hours"] > 40, sensitive="sex", privileged="m", positive_label=True,
    ...            domain=domain, name="hours")
    StudyTable('hours', 100 rows, protected: sex, groups: sex)

    Parameters
    ----------
    X : pandas.DataFrame of shape (n_samples, n_features)
        The true rows. Columns that the domain declares as categories become a feature for each declared value; all
        others must be numbers.
    y : array-like of shape (n_samples,)
        The true labels, of two kinds.
    sensitive : column name
        The column of X whose groups are compared.
    privileged : value or list of values
        Its privileged values.
    positive_label : label
        The favourable label.
    protect : list of column names, optional
        The columns that each person reports. By default `sensitive` alone.
    domain : Domain or mapping
        The declared values of the protected columns, and of other columns of categories.
    name : str, default="table"
        How results name the table.

    Raises
    ------
    TypeError, ValueError
        If X is no pandas DataFrame, a column is missing or not declared, is neither declared nor of numbers, a
        protected or privileged value is not declared, a group or a label is missing, the labels are not of two kinds
        with `positive_label` among them, or y has the row labels of X in another order.

    See Also
    --------
    fairness_study : Takes tables.
    skdp.datasets.load_acs_public_coverage : A table, for `from_bunch`.

    Notes
    -----
    **Privacy.** None: a study compares with the truth. Its tables must not be sensitive.
    """

    X: pd.DataFrame
    y: Any
    sensitive: Any
    privileged: Any
    positive_label: Label
    protect: Sequence[Any] | None = None
    domain: Any = None
    name: str = "table"

    def __post_init__(self) -> None:
        if not is_frame(self.X) or not isinstance(self.X, pd.DataFrame):
            raise TypeError(
                f"X must be a pandas DataFrame, got {type(self.X).__name__}"
            )
        check_consistent_length(self.X, self.y)
        check_same_order(self.X, self.y, "y")
        protect = self._read_protect()
        domain = self._read_domain(protect)
        self._check_labels()
        _check_values(self.X, domain, protect)
        privileged = self._read_privileged(domain)
        if isinstance(self.privileged, Mapping):
            object.__setattr__(self, "privileged", privileged)
        object.__setattr__(self, "protect", protect)
        object.__setattr__(self, "domain", domain)

    def _read_protect(self) -> list[Hashable]:
        """Return the protected columns, which are the sensitive one by default."""
        if not isinstance(self.sensitive, Hashable):
            raise TypeError(
                "sensitive must be the name of one column, got "
                f"{type(self.sensitive).__name__}"
            )
        protect = [self.sensitive] if self.protect is None else list(self.protect)
        for name in [self.sensitive, *protect]:
            if name not in self.X.columns:
                raise ValueError(f"{name!r} is not a column of X")
        return protect

    def _read_domain(self, protect: list[Hashable]) -> Domain:
        if not isinstance(self.domain, Domain | Mapping):
            raise TypeError(
                "domain must be a Domain or a mapping of column to values, got "
                f"{type(self.domain).__name__}"
            )
        domain = self.domain
        if not isinstance(domain, Domain):
            domain = Domain(domain)
        undeclared = [name for name in protect if name not in domain.columns]
        if undeclared:
            raise ValueError(f"domain must declare the protected columns {undeclared}")
        return domain

    def _check_labels(self) -> None:
        labels = pd.Series(np.asarray(self.y))
        if labels.isna().any():
            raise ValueError("y has missing labels: leave their rows out")
        if labels.nunique() != 2 or self.positive_label not in set(labels):
            raise ValueError(
                "y must have two kinds of labels, and positive_label be one of them; "
                f"got {labels.nunique()} kinds"
            )

    def _read_privileged(self, domain: Domain) -> list[Any]:
        """Return the privileged values; they must be declared, and no group missing."""
        if self.X[self.sensitive].isna().any():
            raise ValueError(
                f"column {self.sensitive!r} has missing values: give them a name, as "
                "groups are compared by name"
            )
        ((privileged,),) = read_privileged(self.privileged, [self.sensitive])
        if self.sensitive in categories_of(domain, self.X):
            values = domain[self.sensitive].labels
            unknown = [value for value in privileged if value not in values]
            if unknown:
                raise ValueError(
                    f"privileged {unknown} is not declared for column "
                    f"{self.sensitive!r}, which has {list(values)}"
                )
        return privileged

    def __repr__(self) -> str:
        protect = ", ".join(map(str, self.protect or ()))
        return (
            f"StudyTable({self.name!r}, {len(self.X):,} rows, protected: {protect}, "
            f"groups: {self.sensitive})"
        )

    @classmethod
    def from_bunch(
        cls, bunch: Any, *, sensitive: Any = None, name: str = "table"
    ) -> Self:
        """Make the table of what `load_adult` and the other loaders of `skdp.datasets` return.

        Parameters
        ----------
        bunch : Bunch
            With ``data, target, domain, protected, privileged, positive_label``.
        sensitive : column name, optional
            The column whose groups are compared. By default the first one that has a privileged value.
        name : str, default="table"
            How results name the table.

        Returns
        -------
        StudyTable
            The table; all columns of ``bunch.protected`` are reported.
        """
        if sensitive is None:
            sensitive = next(iter(bunch.privileged))
        if sensitive not in bunch.privileged:
            raise ValueError(
                f"sensitive must be a column with a privileged value, "
                f"{list(bunch.privileged)}, got {sensitive!r}: of others, make a "
                "StudyTable"
            )
        return cls(
            bunch.data,
            bunch.target,
            sensitive=sensitive,
            privileged=bunch.privileged[sensitive],
            positive_label=bunch.positive_label,
            protect=bunch.protected,
            domain=bunch.domain,
            name=name,
        )

    @property
    def labels(self) -> NDArray[np.int64]:
        """1 where the label is the positive one, else 0."""
        return (np.asarray(self.y) == self.positive_label).astype(np.int64)

    @property
    def groups(self) -> pd.Series:
        """The group of each row."""
        return self.X[self.sensitive].reset_index(drop=True)

    @property
    def people(self) -> pd.DataFrame:
        """The protected columns."""
        return self.X[list(self.protect or ())].reset_index(drop=True)

    @property
    def protected_domain(self) -> Domain:
        """The declared values of the protected columns."""
        domain: Domain = self.domain.select(list(self.protect or ()))
        return domain


def _check_values(X: pd.DataFrame, domain: Domain, protect: Sequence[Any]) -> None:
    """Refuse protected values that are not declared, and other columns without numbers."""
    categories = categories_of(domain, X)
    for name in X.columns:
        if name in protect:
            values = domain[name]
            codes = values.encode(X[name].to_numpy())
            if (codes >= len(values)).any():
                raise ValueError(
                    f"column {name!r} holds values that domain does not declare"
                )
            continue
        is_number = pd.api.types.is_numeric_dtype(X[name].dtype)
        if name not in categories and not is_number:
            raise TypeError(
                f"column {name!r} holds no numbers: declare its values in domain"
            )


def other_features(table: StudyTable) -> pd.DataFrame:
    """Return the columns that are not protected as numbers: 0 and 1 for each declared value."""
    features = {}
    categories = categories_of(table.domain, table.X)
    for name in table.X.columns:
        if name in (table.protect or ()):
            continue
        if name not in categories:
            features[f"{name}"] = table.X[name].to_numpy()
            continue
        values = table.domain[name]
        codes = values.encode(table.X[name].to_numpy())
        for code, label in enumerate(values.labels):
            feature = f"{name}_{label}"
            while feature in features or feature in table.X.columns:
                feature += "_"
            features[feature] = (codes == code).astype(np.uint8)
    return pd.DataFrame(features, index=pd.RangeIndex(len(table.X)))


def categories_of(domain: Domain, X: pd.DataFrame) -> set[Any]:
    """Return the columns that are declared as categories, not as bins of numbers."""
    names = set()
    for name in domain.columns:
        is_number = isinstance(domain[name], Interval)
        if name in X.columns and not is_number:
            names.add(name)
    return names
