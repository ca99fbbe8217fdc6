"""Columns cut in two at a private quantile."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils import Tags

from skdp.base import all_or_nothing
from skdp.central._base import CentralTransformer, Columns, keep_missing
from skdp.central.statistics import rank_columns, ranked_quantiles, read_candidates, read_probability
from skdp.privacy import PrivacyLedger


class DPQuantileBinarizer(CentralTransformer):
    """Say of each number whether it is above a quantile of its column that is released with differential privacy.

    For a threshold that is not public, such as the median. The output has the columns and names of the input: 1 where
    a number is greater than the threshold, 0 where it is not.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of all columns together, finite and > 0. Each column gets an equal share.
    quantile : float, default=0.5
        Which one, between 0 and 1: the median by default. At least a millionth away from both ends.
    bounds : pair of float, mapping of column name to pair, or array-like of shape (n_features, 2)
        The lowest and the highest value of all columns, or of each, from what is publicly known. Values outside count
        as the nearer one.
    candidates : "integers", int, array-like of float, or mapping of column name to one of these, optional
        What a threshold may be: ``"integers"`` stands for all whole numbers between the bounds, an int for a number of
        equal steps between them, from 1 to a million. By default up to 10,000 steps, such that all whole numbers
        between whole bounds are among their ends; for these numbers alone, if there are more, up to 100,000. Fewer
        candidates make a more accurate choice. The dtype of a column has no influence: in pandas, it may show that a
        value is missing.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure coins; an int for reproducible experiments, and no promise to who knows it.

    Attributes
    ----------
    thresholds_ : ndarray of shape (n_features,)
        The private quantiles.
    guarantee_ : PrivacyGuarantee
        What was promised for this `fit`, about the thresholds.
    n_features_in_ : int
        The number of columns.
    feature_names_in_ : ndarray of str
        Their names, if all of them are strings.

    See Also
    --------
    DPKBinsDiscretizer : For more than two bins.
    sklearn.preprocessing.Binarizer : For a public threshold.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record changes the law of
    `thresholds_` by at most epsilon, ``delta = 0``; replacing one by 2 epsilon. `fit` reads the values of all columns,
    and how many there are is protected too: a missing value adds nothing, and a table without rows is answered. **The
    thresholds are private, the output of** `transform` **is not**: each row of it is a function of the row that came
    in, without noise. Privatise it in turn, as in the example, and the guarantees add.

    Each threshold is chosen by permute-and-flip [1]_ with epsilon / d for d columns, by how many values the candidate
    fails to be the quantile. The failure is at most t with a probability of at least ``1 - m e**(-t s)``, for m
    candidates and ``s = epsilon / (2 d max(q, 1 - q))``: with 100 candidates and epsilon = 0.1, the median of one
    column is wrong by more than 140 records once in 10,000 times. Where many values are alike, it is usually exact.

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

    What follows may protect the rows. The threshold needs a trusted curator, and so does the whole:

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
        bounds: Any = None,
        candidates: Any = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.quantile = quantile
        self.bounds = bounds
        self.candidates = candidates
        self.ledger = ledger
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Release a quantile of each column.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Numbers; values may be missing, or infinite, which is clipped.
            Or, with `skdp.engines`, a large table, of which only sums are read: a Polars LazyFrame, a DuckDB relation,
            a pyarrow Dataset, or a Dask or Spark DataFrame.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted transformer.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, bounds or candidates do not fit the columns, or X is 1-D, sparse or not
            numeric.
        BudgetExceeded
            If the ledger does not cover it.
        """
        epsilon = self._check_promise()
        probability = read_probability(self.quantile, "quantile")
        table, large = self._open_table(X)
        candidates = read_candidates(self.candidates, table.names, self.bounds)
        ranks = rank_columns(table, large, candidates)
        source = self._spend(table.names, "permute-and-flip")
        self.thresholds_ = ranked_quantiles(ranks, [probability], candidates, epsilon, source)[:, 0]
        return self

    def _transform_columns(self, columns: Columns) -> Columns:
        return [
            keep_missing((column > threshold).astype(np.int8), column)
            for column, threshold in zip(columns, self.thresholds_, strict=True)
        ]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags
