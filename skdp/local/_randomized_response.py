"""Randomised response for the columns of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OneToOneFeatureMixin

from skdp.base import HandleUnknown, ReportStrategy
from skdp.local._oracle_encoder import Categories, OracleEncoder, Shares
from skdp.local.protocol import SAMPLED
from skdp.oracles import RandomizedResponse
from skdp.privacy import PrivacyLedger, Shuffled


class RandomizedResponseEncoder(OracleEncoder):
    """Randomise each value, so that one record reveals little and counts can be estimated.

    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> people = pd.DataFrame({"sex": ["f", "m"] * 500})
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]})
    >>> counts = encoder.estimate_counts(encoder.fit_transform(people))

    A report is the true value with probability ``e^eps / (e^eps + k - 1)``, otherwise
    one of the k - 1 other declared values, each equally likely ([1]_). The output has
    the columns, names and dtypes of the input, so that `OneHotEncoder` can follow.

    Parameters
    ----------
    epsilon : float or Shuffled, default=1.0
        Privacy loss of one record over all columns together, > 0.
    strategy : {"split", "joint", "sample"}, default="split"
        Whether columns share epsilon, are one attribute, or a record draws one of them.
    shares : "uniform", "proportional" or mapping, default="uniform"
        How "split" divides epsilon among the columns.
    categories : "auto", list of array-like, mapping or Domain, default="auto"
        The values of each column; "auto" takes those that a dtype declares, and reads
        the data of other columns, with a `PrivacyLeakWarning`.
    handle_unknown : {"error", "uniform"} or a declared value, default="error"
        What replaces a value that is not declared; an error shows that one occurs.
    memoize : bool, default=False
        Whether a record repeats its report; `transform` then needs ``record_id``.
    secret_key : bytes, optional
        With `memoize`, such as ``SecretKey.generate()``: at least 16 bytes.
    instantaneous_epsilon : float, optional
        With `memoize`: the privacy loss of a single report, less than epsilon.
    ledger : PrivacyLedger, optional
        Charged with `guarantee_` at each call of `transform`, before any draw.
    random_state : int, optional
        None is secure. An int is reproducible, and not private: for tests only.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        What a call of `transform` promises for one record.
    domain_ : Domain
        The declared values of each column.
    oracles_ : tuple of RandomizedResponse
        The mechanism of each column, or of all ("joint").

    See Also
    --------
    UnaryEncodingTransformer : Less error if a column has many values.

    Notes
    -----
    **Privacy.** Local model: for each record, under replacement of its values in the
    fitted columns. Each `transform` is a new release unless it is memoised. The guide
    page "What all encoders share" explains the parameters and what is not covered.

    References
    ----------
    .. [1] P. Kairouz, S. Oh, P. Viswanath (2016). Extremal mechanisms for local
       differential privacy. JMLR 17.
    """

    _mechanism = "k-ary randomised response"
    _reports_values = True

    def __init__(
        self,
        epsilon: float | Shuffled = 1.0,
        *,
        strategy: ReportStrategy = "split",
        shares: Shares = "uniform",
        categories: Categories = "auto",
        handle_unknown: HandleUnknown = "error",
        memoize: bool = False,
        secret_key: bytes | None = None,
        instantaneous_epsilon: float | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.strategy = strategy
        self.shares = shares
        self.categories = categories
        self.handle_unknown = handle_unknown
        self.memoize = memoize
        self.secret_key = secret_key
        self.instantaneous_epsilon = instantaneous_epsilon
        self.ledger = ledger
        self.random_state = random_state

    def _make_oracle(self, k: int, epsilon: Any) -> RandomizedResponse:
        return RandomizedResponse(k, epsilon)

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        names = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        return (
            np.append(names, SAMPLED).astype(object)
            if self.protocol_.sampling is not None
            else names
        )
