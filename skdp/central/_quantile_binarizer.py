"""Columns cut in two at a private quantile."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from sklearn.utils import Tags

from skdp.central._base import CentralTransformer, Columns, Plan, keep_missing
from skdp.central.statistics import Candidates, plan_quantiles, read_candidates, read_probability
from skdp.frames import LargeTable, Table
from skdp.privacy import PrivacyLedger
from skdp.randomness import ByteSource
from skdp.typing import Bounds


class DPQuantileBinarizer(CentralTransformer):
    """Mark the numbers above a quantile of their column that is released with differential privacy.

    For a threshold that is not public, such as the median. The output has the columns and names of the input: 1 where
    a number is greater than the threshold, 0 where it is not.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of all columns together, finite and > 0. Each column gets an equal share.
    quantile : float, default=0.5
        The probability of the quantile, at least a millionth away from 0 and 1; by default the median.
    bounds : pair of float, mapping of column name to pair, or array-like of shape (n_features, 2)
        The lowest and the highest value of all columns, or of each, from what is publicly known. Values outside are
        clipped.
    candidates : "integers", int, array-like of float, or mapping of column name to one of these, optional
        The possible thresholds: ``"integers"`` for all whole numbers between the bounds, an int for a number of equal
        steps between them, from 1 to a million. By default up to 10,000 steps, such that all whole numbers between
        whole bounds are among their ends; if there are more, these numbers alone, up to 100,000. Fewer candidates make
        a more accurate choice. The dtype of a column has no influence: in pandas, it may show that a value is missing.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee against those who know it.

    Attributes
    ----------
    thresholds_ : ndarray of shape (n_features,)
        The private quantiles.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`, about the thresholds.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    DPKBinsDiscretizer : For more than two bins.
    sklearn.preprocessing.Binarizer : For a public threshold.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record changes the
    distribution of `thresholds_` by at most epsilon, ``delta = 0``; replacing one by 2 epsilon. `fit` reads the values
    of all columns, and their number is protected too: a missing value adds nothing, and a table without rows is
    answered. **The thresholds are private, the output of** `transform` **is not**: each of its rows is a function of
    the input row, without noise. Privatise it in turn, as in the example, and the guarantees add.

    Each threshold is chosen by permute-and-flip [1]_ with epsilon / d for d columns, by the number of values by which a
    candidate fails to be the quantile. This number is at most t with probability at least ``1 - m e**(-t s)``, for m
    candidates and ``s = epsilon / (2 d max(q, 1 - q))``: with 100 candidates and epsilon = 0.1, the median of one
    column is wrong by more than 140 records once in 10,000 times.

    References
    ----------
    .. [1] R. McKenna, D. Sheldon (2020). Permute-and-flip: a new mechanism for differentially private selection.
       NeurIPS.

    Examples
    --------
    >>> from skdp import DPQuantileBinarizer, RandomizedResponseEncoder
    >>> from skdp.datasets import load_adult
    >>> people = load_adult().frame[["age", "sex"]]
    >>> binarizer = DPQuantileBinarizer(epsilon=0.1, bounds=(0, 100), random_state=0).fit(people[["age"]])
    >>> binarizer.thresholds_
    array([37.])
    >>> binarizer.transform(people[["age"]].head(3))["age"].tolist(), people["age"].head(3).tolist()
    ([1, 1, 1], [39, 50, 38])

    A later step may protect the rows. The threshold needs a trusted curator, and so does the whole:

    >>> from sklearn.compose import make_column_transformer
    >>> from sklearn.pipeline import make_pipeline
    >>> older = make_column_transformer(
    ...     (binarizer, ["age"]), remainder="passthrough", verbose_feature_names_out=False
    ... ).set_output(transform="pandas")
    >>> encoder = RandomizedResponseEncoder(
    ...     1.0, strategy="joint", categories={"age": [0, 1], "sex": ["Female", "Male"]}, random_state=0
    ... )
    >>> private = make_pipeline(older, encoder).fit_transform(people)
    >>> print(older.named_transformers_["dpquantilebinarizer"].guarantee_ + encoder.guarantee_)
    epsilon = 1.2, central model, replacing one record's values of: age, sex, NOT SECURE: the coins come from a seed
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        quantile: float = 0.5,
        bounds: Bounds | None = None,
        candidates: Candidates | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.quantile = quantile
        self.bounds = bounds
        self.candidates = candidates
        self.ledger = ledger
        self.random_state = random_state

    def _plan(self, table: Table, large: LargeTable | None, epsilon: Fraction) -> Plan:
        probability = read_probability(self.quantile, "quantile")
        candidates = read_candidates(self.candidates, table.names, self.bounds)
        draw = plan_quantiles(table, large, candidates, [probability], epsilon)

        def release(source: ByteSource) -> None:
            self.thresholds_ = draw(source)[:, 0]

        return Plan("permute-and-flip", release)

    def _transform_columns(self, columns: Columns) -> Columns:
        return [
            keep_missing((column > threshold).astype(np.int8), column)
            for column, threshold in zip(columns, self.thresholds_, strict=True)
        ]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags
