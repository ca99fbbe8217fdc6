"""The study of a report: a table, its protected columns, and the models that are trained on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdp.domain import Codes, Domain, Interval
from skdp.evaluation._common import read_epsilons
from skdp.local import RandomizedResponseEncoder
from skdp.metrics import list_privileged, parse_classes

# The name of the epsilon parameter of `Study.model`.
PARAM_NAME = "columns__private__encoder__epsilon"


@dataclass(frozen=True)
class Study:
    """A table and the settings of its study, made by `Study.read`."""

    frame: pd.DataFrame
    domain: Domain
    columns: list[Any]
    target: Any
    sensitive: Any
    privileged: list[Any]
    epsilons: list[float]
    random_state: int | None
    n_jobs: int | None

    @classmethod
    def read(
        cls,
        frame: pd.DataFrame,
        domain: Domain,
        *,
        columns: Sequence[Any] | None,
        target: Any,
        sensitive: Any,
        privileged: Any,
        epsilons: Sequence[float],
        random_state: int | None,
        n_jobs: int | None,
    ) -> Self:
        """Check the parameters of `study_report`, and prepare its table."""
        # Column transformers of scikit-learn and the CSV files need names of text.
        unnamed = [name for name in frame if not isinstance(name, str)]
        if unnamed:
            raise TypeError(
                f"the names of the columns must be text, got {unnamed}. Use "
                "`frame.rename(columns=str)`."
            )
        columns = list(domain.columns if columns is None else columns)
        # All parameters are checked before the experiments, which take minutes.
        required = [*domain.columns, *([] if target is None else [target])]
        absent = [name for name in required if name not in frame]
        if absent:
            raise ValueError(
                f"the table has no columns {absent}; it has {frame.columns.to_list()}"
            )
        undeclared = [name for name in columns if name not in domain.columns]
        if undeclared:
            raise ValueError(
                f"the domain must declare the columns to protect; {undeclared} are "
                "missing"
            )
        _check_roles(columns, target, sensitive)
        frame, domain = _label_bins(
            frame, domain, [name for name in domain.columns if name != target], columns
        )
        if domain.select(columns).size < 2:
            raise ValueError(
                "`columns` must have at least two declared values together, got "
                f"one for {columns}."
            )
        # All models predict whether a row is positive.
        if target is not None:
            frame = frame.assign(**{target: _find_positive(frame[target])})
            declared = {name: domain[name] for name in domain.columns}
            domain = Domain(declared | {target: [False, True]})
        groups = []
        if sensitive is not None:
            groups = _find_privileged(domain, frame[sensitive], privileged)
        return cls(
            frame,
            domain,
            columns,
            target,
            sensitive,
            groups,
            read_epsilons(epsilons),
            random_state,
            n_jobs,
        )

    @property
    def protected(self) -> Domain:
        """The domain of the columns to protect."""
        return self.domain.select(self.columns)

    @cached_property
    def features(self) -> pd.DataFrame:
        """All columns but the target, for models."""
        return self.coded(self.frame.drop(columns=[self.target]), self.columns)

    def coded(self, frame: pd.DataFrame, unchanged: Sequence[Any] = ()) -> pd.DataFrame:
        """Replace categories by whole numbers, which encoders read in a hundredth of the time."""
        columns: dict[Any, Any] = {}
        for name in frame.columns.difference([*unchanged, self.target], sort=False):
            if name in self.numbers:
                columns[name] = frame[name].astype(float)
            else:
                # The codes of all rows of the study, so that training, test and
                # synthetic rows have the same ones; missing values have the code -1.
                values = pd.Index(self.frame[name].astype(object).dropna().unique())
                columns[name] = values.get_indexer(frame[name].astype(object))
        return frame.assign(**columns)

    @cached_property
    def numbers(self) -> list[Any]:
        """The columns of numbers."""
        return self.frame.select_dtypes("number").columns.to_list()

    @property
    def others(self) -> list[Any]:
        """The columns that are neither protected nor the target."""
        return [name for name in self.frame if name not in (*self.columns, self.target)]

    @property
    def y(self) -> pd.Series:
        """The target, True if it is positive."""
        return self.frame[self.target]

    @property
    def names(self) -> str:
        """The joint name of the protected columns."""
        return " × ".join(map(str, self.columns))

    @property
    def example(self) -> float:
        """The epsilon of figures of a single release: the one nearest to 1."""
        return min(self.epsilons, key=lambda epsilon: abs(np.log(epsilon)))

    def seed(self, *key: int) -> int | None:
        """Return a seed that is unique to a part of the study."""
        if self.random_state is None:
            return None
        # The length of the key is included, because NumPy ignores trailing zeros.
        entropy = np.random.SeedSequence([self.random_state, len(key), *key])
        return int(entropy.generate_state(1)[0])

    def encoder(self, epsilon: float, *key: int) -> RandomizedResponseEncoder:
        """Return a fitted encoder of the protected columns."""
        # With common noise, the errors at all epsilons would be correlated.
        seed = self.seed(*key, self.epsilons.index(epsilon))
        encoder = RandomizedResponseEncoder(
            epsilon, strategy="joint", categories=self.protected, random_state=seed
        )
        return encoder.fit(self.frame[self.columns])

    def model(self, *, protected: str) -> Pipeline:
        """Return a logistic regression of all columns, as `features` and `coded` return them."""
        # Models differ in the protected columns alone, so that scores are comparable.
        names = self.others
        if protected == "as they are":
            # In synthetic rows, which have the declared columns.
            names = [name for name in self.domain.columns if name != self.target]
        parts: list[Any] = []
        if protected == "reported":
            encoder = RandomizedResponseEncoder(
                strategy="joint", categories=self.protected
            )
            one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
            steps = [("encoder", encoder), ("one_hot", one_hot)]
            parts.append(("private", Pipeline(steps), self.columns))
        parts += self._prepare(names)
        # A third of the time of the default solver, and as accurate.
        model: Any = LogisticRegression(solver="newton-cholesky")
        if protected == "excluded" and not self.others:
            # Without features, only the proportions of the target can be predicted.
            model = DummyClassifier()
        columns = ColumnTransformer(parts, remainder="drop")
        return Pipeline([("columns", columns), ("classifier", model)])

    def _prepare(self, names: list[Any]) -> list[Any]:
        """Return the steps that prepare columns for a classifier."""
        numbers = [name for name in names if name in self.numbers]
        categories = [name for name in names if name not in self.numbers]
        imputer = SimpleImputer(keep_empty_features=True)
        # Rare values share a column, because a column of names would become as many
        # columns as rows.
        one_hot = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            max_categories=50,
            sparse_output=False,
        )
        return [
            ("numbers", make_pipeline(imputer, StandardScaler()), numbers),
            ("categories", one_hot, categories),
        ]


def encode_declared(domain: Domain, columns: Sequence[Any]) -> list[Codes]:
    """Encode columns, without undeclared values."""
    codes = domain.encode(columns)
    for name, size, column in zip(domain.columns, domain.sizes, codes, strict=True):
        if column.max(initial=0) == size:
            raise ValueError(
                f"column {name!r} has values outside its domain. Declare them, or widen "
                "the bins."
            )
    return codes


def _check_roles(columns: list[Any], target: Any, sensitive: Any) -> None:
    """Check the target and the sensitive column."""
    if target in columns:
        raise ValueError(
            f"`target` {target!r} cannot be one of the protected columns {columns}"
        )
    if sensitive is not None and target is None:
        raise ValueError(
            "`sensitive` requires `target`, whose predictions are compared between groups"
        )
    if sensitive is not None and sensitive not in columns:
        raise ValueError(
            f"`sensitive` must be one of the protected columns {columns}, got "
            f"{sensitive!r}"
        )


def _label_bins(
    frame: pd.DataFrame, domain: Domain, names: list[Any], protected: list[Any]
) -> tuple[pd.DataFrame, Domain]:
    """Check that all values are declared, and replace protected numbers by the labels of their bins."""
    domain = domain.select(names)
    codes = encode_declared(domain, [frame[name] for name in names])
    labelled: dict[Any, pd.Series] = {}
    for name, column in zip(names, codes, strict=True):
        if name in protected and isinstance(domain[name], Interval):
            labels = pd.Series(list(domain[name].labels), name=name)
            labelled[name] = labels.take(column.astype(np.intp)).set_axis(frame.index)
    # Bins of protected numbers are values from here on.
    declared: dict[Any, Any] = {}
    for name in names:
        attribute = domain[name]
        declared[name] = list(attribute.labels) if name in labelled else attribute
    return frame.assign(**labelled), Domain(declared)


def _find_positive(column: pd.Series) -> pd.Series:
    """Return True for each row with the target 1."""
    name = f"`target`: column {column.name!r}"
    if column.isna().any():
        raise ValueError(f"{name} has missing values. Exclude these rows.")
    labels = parse_classes(column, name)
    is_positive = (labels == 1).set_axis(column.index)
    n_rows = min(is_positive.sum(), (~is_positive).sum())
    # With 4 rows of a class, each split has one to train and one to test.
    if not labels.isin([0, 1]).all() or n_rows < 4:
        raise ValueError(
            f"{name} must be 0 or 1, each in at least 4 rows. Convert it by a "
            "comparison; `skdp report --positive` does so for a label."
        )
    return is_positive


def _find_privileged(domain: Domain, column: pd.Series, privileged: Any) -> list[Any]:
    """Check that the privileged values are declared, and that there are two groups."""
    (values,) = list_privileged(privileged, [column.name])
    labels = list(domain[column.name].labels)
    is_declared = pd.Series(values).isin(labels) & pd.Series(values).notna()
    if not is_declared.all() or len(set(values)) >= len(labels):
        # The message has no values of the data.
        raise ValueError(
            "`privileged` must be some, but not all, of the declared values of "
            f"`sensitive` {column.name!r}. Use labels for bins"
        )
    is_privileged = column.isin(values)
    if is_privileged.all() or not is_privileged.any():
        number = "only" if is_privileged.all() else "no"
        raise ValueError(
            "`privileged` must divide the rows into two groups; column "
            f"{column.name!r} has {number} privileged rows"
        )
    return values
