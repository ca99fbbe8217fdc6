"""Scores of models that were trained on synthetic rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.metrics import check_scoring

from skdp.base import ColumnLike, ColumnName, TableLike, check_row_order
from skdp.metrics._inputs import read_classes, read_column
from skdp.metrics._table_pairs import column_of, names_in_one_only
from skdp.pages import warn
from skdp.tables import is_frame, kind_of, read_table


def train_on_synthetic(
    estimator: BaseEstimator,
    synthetic: TableLike | tuple[TableLike, ColumnLike],
    real_test: TableLike | tuple[TableLike, ColumnLike],
    *,
    target: ColumnName | None = None,
    scoring: str | Sequence[str] | Callable[..., float | dict[str, float]] = "roc_auc",
    real_train: TableLike | tuple[TableLike, ColumnLike] | None = None,
) -> pd.DataFrame:
    """Train a model on synthetic rows and score it on real ones.

    Known as TSTR, "train on synthetic, test on real" [1]_: if the score is close to that of the same model trained on
    real rows, the synthetic rows are a substitute for them.

    Parameters
    ----------
    estimator : estimator
        A classifier or regressor of scikit-learn, or a Pipeline that ends in one. It is cloned, and must accept the
        features unprocessed: for text, use an encoder that accepts unseen values.
    synthetic : dataframe, or pair (X, y)
        The synthetic rows to train on.
    real_test : dataframe, or pair (X, y)
        The real rows to score on; not used by the synthesizer or in `real_train`. The columns may be in another order.
    target : column name, optional
        The column to predict. Required for dataframes, ignored for pairs.
    scoring : str, callable, or list of str, default="roc_auc"
        Names of scikit-learn's scores, or a scorer ``f(estimator, X, y)``.
    real_train : dataframe, or pair (X, y), optional
        Real rows to train on for comparison.

    Returns
    -------
    pandas.DataFrame
        The row "synthetic", and "real" if `real_train` is given; one column per score.

    Raises
    ------
    TypeError, ValueError
        If a table has no rows, lacks the target or holds missing values in it, the columns differ, or X and y have
        the same row labels in different orders.

    Warns
    -----
    UserWarning
        If the rows to train a classifier on are all of one class. The score is then that of predicting this class for
        every row: an AUC of 0.5.

    See Also
    --------
    marginal_error : A measure without a model.

    Notes
    -----
    **Privacy.** The scores depend on the real rows and are not protected: for data that is not sensitive. If the
    synthetic rows are private, so is the model that is trained on them, but not its score.

    References
    ----------
    .. [1] C. Esteban, S. L. Hyland, G. Rätsch (2017). Real-valued (medical) time series generation with recurrent
       conditional GANs. arXiv:1706.02633.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
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
    train = {"synthetic": _split("synthetic", synthetic, target, read_target)}
    if real_train is not None:
        train["real_train"] = _split("real_train", real_train, target, read_target)
    X_test, y_test = _split("real_test", real_test, target, read_target)
    scorer = check_scoring(estimator, scoring)
    rows = {}
    for name, (X, y) in train.items():
        model = _fit(estimator, X, y, y_test, name)
        score = scorer(model, _align(X_test, X, name), y_test)
        if not isinstance(score, dict):
            score_name = getattr(scoring, "__name__", "score")
            score = {scoring if isinstance(scoring, str) else score_name: score}
        rows[name.removesuffix("_train")] = score
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("trained_on")


def _split(
    label: str, data: Any, target: Any, read_target: Callable[..., pd.Series]
) -> tuple[Any, pd.Series]:
    if isinstance(data, tuple):
        if len(data) != 2:
            raise ValueError(
                f"{label} must be a dataframe or a pair (X, y), got a tuple of"
                f" {len(data)}"
            )
        X, y = data
        check_row_order(X=X, y=y)
    else:
        X, y = _take_out(label, data, target)
    y = read_target(y, f"the target of {label}")
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if rows != len(y):
        raise ValueError(f"X of {label} has {rows} rows, y has {len(y)}")
    if rows == 0:
        raise ValueError(f"{label} has no rows")
    return X, y


def _take_out(label: str, data: Any, target: Any) -> tuple[Any, Any]:
    if not is_frame(data):
        raise TypeError(
            f"{label} must be a dataframe or a pair (X, y), got {type(data).__name__}"
        )
    table = read_table(data)
    if target is None:
        raise ValueError(
            f"{label} is a dataframe: target must name its column to predict"
        )
    named = dict(zip(table.names, table.columns, strict=True))
    if target not in named:
        raise ValueError(f"{label} has no column {target!r}; it has {list(named)}")
    y = named.pop(target)
    if not named:
        raise ValueError(f"{label} has no column besides the target")
    return table.rebuild(list(named.values()), list(named)), y


def _align(X_test: Any, X: Any, name: str) -> Any:
    """Order the columns of the test rows as those of the training rows."""
    if not (is_frame(X_test) and is_frame(X)):
        return X_test
    test, names = read_table(X_test), read_table(X).names
    in_one_only = names_in_one_only(test.names, names)
    if in_one_only:
        raise ValueError(
            f"real_test and {name} must have the same columns; in one of them only: "
            f"{in_one_only}"
        )
    return test.rebuild([column_of(test, name) for name in names], names)


def _fit(estimator: Any, X: Any, y: pd.Series, y_test: pd.Series, name: str) -> Any:
    if not is_classifier(estimator):
        return clone(estimator).fit(X, y)
    # 1 and "1" are two classes to a classifier, and every prediction would be wrong.
    kinds = set(map(kind_of, y.unique()))
    if kinds.isdisjoint(map(kind_of, y_test.unique())):
        raise ValueError(
            f"the target of {name} and that of real_test hold values of different kinds"
        )
    if y.nunique() > 1:
        return clone(estimator).fit(X, y)
    warn(
        f"all rows of {name} are of one class of the target; the score is that of"
        " predicting this class for every row",
        UserWarning,
        about="guide/training_on_synthetic_rows",
        stacklevel=3,
    )
    # It also has the classes of the test rows, for scores that need a probability of each.
    constant = y.iloc[0]
    classes = [constant, *y_test.unique()]
    return DummyClassifier(strategy="constant", constant=constant).fit(
        np.zeros((len(classes), 1)), classes
    )
