"""How well a protected column can be guessed from what is released."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from skdp.base import check_random_state
from skdp.evaluation._attack_columns import factorize, read_columns
from skdp.evaluation._attack_result import AttackResult
from skdp.evaluation._attacker import Attacker
from skdp.evaluation._bayes_bound import bayes_accuracy, guessing_bound
from skdp.local._base import LocalTransformer


def attribute_inference(
    X_released: Any,
    y: Any,
    sensitive: Any,
    known: Sequence[Any] | None = None,
    *,
    report: Sequence[Any] | None = None,
    encoder: Any = None,
    epsilon: float | None = None,
    estimator: Any = None,
    cv: int = 5,
    random_state: int | None = None,
) -> AttackResult:
    """Attack a release: learn to guess the true values of a protected column from all columns that are released.

    The attacker has rows whose true values are known, learns from them, and guesses those of other rows
    (cross-validation). What is right is compared with a guess that looks at nothing, with the same attack without the
    report, and with the bound for guesses from the report alone. Which columns give the value away is listed.

    Parameters
    ----------
    X_released : dataframe or array-like of shape (n_samples, n_features)
        All that is released of the rows, reports included; numbers, text, categories, missing values. A pandas, polars
        or pyarrow table, or an array.
    y : 1-D array-like of shape (n_samples,) or None
        The label, if it is released too.
    sensitive : 1-D array-like of shape (n_samples,), or dataframe
        The true values of the protected column. Of several columns, the combinations are guessed.
    known : sequence of column names, optional
        Which columns of `X_released`, besides the report, the attacker knows; by default all.
    report : sequence of column names, optional
        Which columns of `X_released` are the report. By default those of the encoder.
    encoder : fitted local transformer, optional
        What made the report. It gives the names of the report and the Bayes bound.
    epsilon : float, optional
        The privacy loss of the report of the protected column, if there is no encoder; for the Bayes bound.
    estimator : classifier, optional
        What learns. It is cloned, and must take the columns as they are: for text, put an encoder before it that bears
        values it has not seen. By default `HistGradientBoostingClassifier`, with text as categories.
    cv : int, default=5
        The number of folds, at least 2.
    random_state : int, optional
        For the folds, the shuffles and the default estimator.

    Returns
    -------
    AttackResult
        ``accuracy, baseline, bayes_bound, std_error``, ``accuracy_without_report``, ``carriers`` and more.

    Raises
    ------
    TypeError, ValueError
        If the rows do not match, a column is missing, the protected column has one value only, or a parameter is out of
        range.
    NotFittedError
        If the encoder is not fitted.

    See Also
    --------
    audit_epsilon : A lower bound on the epsilon of a transformer.
    guessing_bound : The bound for all protocols of an epsilon.

    Notes
    -----
    **Privacy.** The result depends on true values and is not protected: it is for experiments on data that may be
    looked at. It holds numbers and column names, no values.

    **What the bound bounds.** ``bayes_bound`` is ``sum_r max_v P(v) P(r | v)``, where P(v) is the share of v in
    `sensitive` and P(r | v) the channel of the encoder: what the best guess *from the report alone* gets right on
    average. Where the channel has no table (hashing), for combinations of columns that were reported apart, or parts of
    a joint report, it is the largest value among all protocols of that epsilon (`guessing_bound`); ``bound`` says which
    it is. An accuracy above it (``exceeds_bound``) is no fault of the protocol: then other columns carry the value, and
    no epsilon of the report can hide what they show. Local privacy of a column is a promise about that column.

    **Carriers.** ``alone``: each value of the column (64 bins of a number) guesses what is most frequent among its rows
    in the other folds. ``drop``: the loss of accuracy when the column is shuffled in the rows that are guessed. Of
    columns that say the same, each may have a small drop.

    The standard errors are those of the mean over the rows, the models given: folds share training rows.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"sex": rng.choice(["F", "M"], 1000)})
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["F", "M"]}, random_state=0)
    >>> released = encoder.fit_transform(people)
    >>> result = attribute_inference(released, None, people["sex"], encoder=encoder, random_state=0)
    >>> round(result.accuracy, 2), round(result.bayes_bound, 2), round(result.accuracy_without_report, 2)
    (0.7, 0.73, 0.54)

    Beside a column that goes along with the protected one, the report hides nothing:

    >>> released = released.assign(title=people["sex"].map({"F": "Ms", "M": "Mr"}), shoe=rng.normal(40, 2, 1000))
    >>> result = attribute_inference(released, None, people["sex"], encoder=encoder, random_state=0)
    >>> result.accuracy, result.accuracy_without_report, result.exceeds_bound
    (1.0, 1.0, True)
    >>> result.carriers.round(2)
            is_report  alone  drop
    column
    title       False   1.00  0.49
    sex          True   0.70  0.00
    shoe        False   0.54  0.00
    """
    _check_options(cv, random_state, estimator)
    released, protected = read_columns(X_released, "X_released"), read_columns(sensitive, "sensitive")
    seen, reported = _choose_columns(list(released.columns), known, report, encoder)
    frame = _add_label(released[seen], y)
    if len(protected) != len(frame):
        raise ValueError(f"X_released has {len(frame)} rows, sensitive has {len(protected)}")
    truth = _combine(protected)
    shares = np.bincount(truth) / len(truth)
    if shares.size < 2:
        raise ValueError("sensitive has one value only: there is nothing to guess")
    bound, kind = _bound(protected, shares, encoder, epsilon)
    attack = Attacker(frame, truth, estimator, cv, random_state)
    right, drops = attack.run(list(frame.columns)), attack.drops_
    without = attack.run([name for name in frame.columns if name not in reported]) if reported else None
    carriers = pd.DataFrame(
        {
            "is_report": [name in reported for name in frame.columns],
            "alone": [attack.alone(name) for name in frame.columns],
            "drop": drops,
        },
        index=pd.Index(list(frame.columns), name="column", tupleize_cols=False),
    )
    return AttackResult(
        accuracy=float(right.mean()),
        baseline=float(shares.max()),
        bayes_bound=bound,
        std_error=_std_error(right),
        n_rows=len(truth),
        bound=kind,
        accuracy_without_report=None if without is None else float(without.mean()),
        std_error_without_report=None if without is None else _std_error(without),
        carriers=carriers.sort_values(["alone", "drop"], ascending=False, kind="stable"),
    )


def _check_options(cv: Any, random_state: Any, estimator: Any) -> None:
    if not isinstance(cv, Integral) or isinstance(cv, bool):
        raise TypeError(f"cv must be a number of folds, got {type(cv).__name__}")
    if cv < 2:
        raise ValueError(f"cv must be at least 2, got {cv}")
    check_random_state(random_state)
    if estimator is not None and (isinstance(estimator, type) or not is_classifier(estimator)):
        raise TypeError(f"estimator must be a classifier, got {type(estimator).__name__}")


def _choose_columns(names: list[Any], known: Any, report: Any, encoder: Any) -> tuple[list[Any], list[Any]]:
    """Return the columns that the attacker sees, and those of them that are the report."""
    if encoder is not None:
        if not isinstance(encoder, LocalTransformer):
            raise TypeError(f"encoder must be a local transformer, got {type(encoder).__name__}")
        check_is_fitted(encoder)
    if report is None:
        report = [] if encoder is None else list(encoder.get_feature_names_out())
    chosen = {"report": report, "known": names if known is None else known}
    for label, columns in chosen.items():
        if isinstance(columns, str) or not isinstance(columns, Sequence):
            raise TypeError(f"{label} must be a list of column names, got {type(columns).__name__}")
        absent = [name for name in columns if name not in names]
        if absent:
            raise ValueError(f"{label} names columns that X_released does not have: {absent}; it has {names}")
    return [name for name in names if name in report or name in chosen["known"]], list(report)


def _add_label(frame: pd.DataFrame, y: Any) -> pd.DataFrame:
    """Let the attacker see the label too."""
    if y is None:
        return frame
    label = read_columns(y, "y")
    if label.shape[1] != 1:
        raise ValueError(f"y must be one column, got {label.shape[1]}")
    if len(label) != len(frame):
        raise ValueError(f"X_released has {len(frame)} rows, y has {len(label)}")
    if label.columns[0] in frame.columns:
        raise ValueError(f"X_released has the column {label.columns[0]!r} of y already: give y=None")
    return pd.concat([frame, label], axis=1)


def _combine(protected: pd.DataFrame) -> NDArray[np.intp]:
    """Give each combination of values a number."""
    codes = np.column_stack(
        [factorize(protected.iloc[:, place], missing=True)[0] for place in range(protected.shape[1])]
    )
    return np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1)


def _bound(protected: pd.DataFrame, shares: NDArray[np.float64], encoder: Any, epsilon: Any) -> tuple[float, str]:
    """Return what the best guess from the report alone gets right, and what kind of bound that is."""
    if encoder is None:
        if epsilon is None:
            return math.nan, ""
        return guessing_bound(shares, epsilon), f"the best protocol of epsilon = {epsilon:g}"
    names = _names_of(protected, encoder)
    whole = [index for index, columns in enumerate(encoder._attributes) if set(columns) == set(names)]
    if whole:
        exact = _exact_bound(protected.set_axis(names, axis=1), encoder, whole[0])
        if exact is not None:
            return exact, "the exact value of the protocol"
    achieved = encoder.oracles_[whole[0]].epsilon if whole else encoder.guarantee_.epsilon
    return guessing_bound(shares, achieved), f"the best protocol of epsilon = {achieved:g}"


def _names_of(protected: pd.DataFrame, encoder: LocalTransformer) -> list[Any]:
    """Find the protected columns among those of the encoder; a single one needs no name."""
    names, domain = list(protected.columns), encoder.domain_
    if len(names) == len(domain.columns) == 1:
        return list(domain.columns)
    absent = [name for name in names if name not in domain.columns]
    if absent:
        raise ValueError(
            f"sensitive must be columns of the encoder, by their names {list(domain.columns)}; {absent} are not"
        )
    return names


def _exact_bound(protected: pd.DataFrame, encoder: LocalTransformer, place: int) -> float | None:
    domain = encoder.domain_.select(encoder._attributes[place])
    codes = domain.encode([protected[name] for name in domain.columns])
    for name, size, column in zip(domain.columns, domain.sizes, codes, strict=True):
        if column.max(initial=0) == size:
            raise ValueError(f"column {name!r} of sensitive holds a value outside the declared categories")
    prior = np.bincount(domain.join(codes).astype(np.intp), minlength=domain.size) / len(protected)
    exact = bayes_accuracy(encoder.oracles_[place], prior)
    if exact is None or encoder._strategy != "sample":
        return exact
    # One attribute of each record is reported; of the others, the guess is the most frequent value.
    d = len(encoder.oracles_)
    return float((exact + (d - 1) * prior.max()) / d)


def _std_error(right: NDArray[np.bool_]) -> float:
    return float(np.sqrt(right.mean() * (1 - right.mean()) / right.size))
