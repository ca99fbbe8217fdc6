"""Scores of models that were trained on synthetic rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.metrics import check_scoring

from skdp.base import ColumnName, TableLike
from skdp.metrics._inputs import read_classes, read_column
from skdp.pages import warn
from skdp.tables import is_frame, kind_of, read_table


def train_on_synthetic(
    estimator: BaseEstimator,
    synthetic: TableLike,
    real_test: TableLike,
    *,
    target: ColumnName,
    scoring: str | Sequence[str] | Callable[..., float | dict[str, float]] = "roc_auc",
    real_train: TableLike | None = None,
) -> pd.DataFrame:
    """Train a model on synthetic rows and score it on real ones.

    Also called TSTR, "train on synthetic, test on real" [1]_. If the score is close to
    the score of the same model trained on real rows, the synthetic rows can replace them.

    Parameters
    ----------
    estimator : estimator
        Classifier or regressor of scikit-learn, or a Pipeline that ends in one. It is
        cloned, and must accept the features unprocessed.
    synthetic : dataframe
        Synthetic rows to train on.
    real_test : dataframe
        Real rows to score on, used neither by the synthesizer nor in `real_train`. The
        columns may be in another order.
    target : column name
        Column to predict.
    scoring : str, callable, or list of str, default="roc_auc"
        Names of scikit-learn's scores, or a scorer ``f(estimator, X, y)``.
    real_train : dataframe, default=None
        Real rows to train on for comparison.

    Returns
    -------
    pandas.DataFrame
        The row "synthetic", and "real" if `real_train` is given; one column per score.

    Raises
    ------
    TypeError, ValueError
        If a table has no rows, lacks the target or has missing values in it, or the
        columns differ.

    Warns
    -----
    UserWarning
        If all rows to train a classifier on are of one class. The score is then the
        score of a constant prediction: an AUC of 0.5.

    See Also
    --------
    marginal_error : Error of marginals, without a model.

    Notes
    -----
    **Privacy.** The scores depend on the real rows and are not protected. A model that
    is trained on private synthetic rows is private.

    References
    ----------
    .. [1] C. Esteban, S. L. Hyland, G. Rätsch (2017). Real-valued (medical) time series
       generation with recurrent conditional GANs. arXiv:1706.02633.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdp.metrics import train_on_synthetic
    >>> train = pd.DataFrame({"age": [25, 35, 45, 55], "buys": ["no", "no", "yes", "yes"]})
    >>> test = pd.DataFrame({"age": [20, 30, 42, 50], "buys": ["no", "no", "yes", "yes"]})
    >>> synthetic = pd.DataFrame({"age": [25, 55, 55, 65], "buys": ["no", "no", "yes", "yes"]})
    >>> train_on_synthetic(LogisticRegression(), synthetic, test, target="buys", scoring=["roc_auc", "accuracy"],
    ...                    real_train=train)
                roc_auc  accuracy
    trained_on
    synthetic       1.0       0.5
    real            1.0       1.0
    """
    read_target = read_classes if is_classifier(estimator) else read_column
    tables = {"synthetic": synthetic, "real_train": real_train, "real_test": real_test}
    features, targets = {}, {}
    names: list[Any] = []
    for label, table in tables.items():
        if table is not None:
            # All tables have the columns of the synthetic one, in its order.
            features[label], y, names = _take_target(label, table, target, names)
            targets[label] = read_target(y, f"the target of {label}")
    scorer = check_scoring(estimator, scoring)
    X_test, y_test = features.pop("real_test"), targets["real_test"]
    rows = {}
    for label, X in features.items():
        model = _fit(estimator, X, targets[label], y_test, label)
        score = scorer(model, X_test, y_test)
        if not isinstance(score, dict):
            score_name = getattr(scoring, "__name__", "score")
            score = {scoring if isinstance(scoring, str) else score_name: score}
        rows[label.removesuffix("_train")] = score
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("trained_on")


def _take_target(
    label: str, data: Any, target: Any, names: list[Any]
) -> tuple[Any, Any, list[Any]]:
    """Return the features in the order of `names`, if there are any, the target, and the names."""
    if not is_frame(data):
        raise TypeError(f"{label} must be a dataframe, got {type(data).__name__}")
    table = read_table(data)
    columns = dict(zip(table.names, table.columns, strict=True))
    if target not in columns:
        raise ValueError(f"{label} has no column {target!r}; it has {list(columns)}")
    y = columns.pop(target)
    if not columns or len(y) == 0:
        raise ValueError(f"{label} must have rows, and columns besides the target")
    names = names or list(columns)
    if set(names) != set(columns):
        raise ValueError(
            f"{label} and synthetic must have the same columns; in one of them only: "
            f"{sorted(set(names) ^ set(columns), key=str)}"
        )
    return table.rebuild([columns[name] for name in names], names), y, names


def _fit(estimator: Any, X: Any, y: pd.Series, y_test: pd.Series, label: str) -> Any:
    if not is_classifier(estimator):
        return clone(estimator).fit(X, y)
    # 1 and "1" are two classes, so every prediction would be wrong.
    kinds = set(map(kind_of, y.unique()))
    if kinds.isdisjoint(map(kind_of, y_test.unique())):
        raise ValueError(
            f"the targets of {label} and real_test must have values of one type"
        )
    if y.nunique() > 1:
        return clone(estimator).fit(X, y)
    warn(
        f"all rows of {label} are of one class of the target; the score is the score of "
        "a constant prediction",
        UserWarning,
        about="guide/training_on_synthetic_rows",
        stacklevel=3,
    )
    # Scores need a probability of each class of the test rows.
    constant = y.iloc[0]
    classes = [constant, *y_test.unique()]
    model = DummyClassifier(strategy="constant", constant=constant)
    return model.fit(np.zeros((len(classes), 1)), classes)
