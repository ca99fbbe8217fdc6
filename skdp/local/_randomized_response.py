"""Randomised response for the columns of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OneToOneFeatureMixin

from skdp.local._oracle_encoder import Categories, OracleEncoder, Shares
from skdp.local.protocol import SAMPLED
from skdp.oracles import RandomizedResponse
from skdp.privacy import PrivacyLedger, Shuffled
from skdp.typing import HandleUnknown, ReportStrategy


class RandomizedResponseEncoder(OracleEncoder):
    """Randomise each value so that one record reveals little and the counts can still be estimated.

    Every value of the declared domain is reported truthfully with probability ``e^eps / (e^eps + k - 1)`` and as any
    other value with equal probability otherwise (k-ary randomised response, [1]_). The output has the columns, names
    and dtypes of the input, so `OneHotEncoder` can follow it.

    Parameters
    ----------
    epsilon : float or Shuffled, default=1.0
        Privacy loss of one record over all columns together; finite and > 0. Smaller is more private. Or what the
        reports of many persons shall guarantee together, if only their sums are released: `Shuffled`.
    strategy : {"split", "joint", "sample"}, default="split"
        ``"split"``: each column is randomised by itself, with a share of epsilon. ``"joint"``: the columns are
        one attribute with a value for each cell of their Cartesian product; it keeps how the columns go together, and
        suits a few columns with few values. ``"sample"``: each record reports one column, drawn at random, with all of
        epsilon; which one is public (column ``sampled``), the others are missing. It suits many columns whose
        frequencies are wanted one by one.
    shares : "uniform", "proportional" or mapping, default="uniform"
        How "split" divides epsilon: equal parts, parts proportional to the number of values of a column, or to the
        numbers of ``{column: number}``.
    categories : "auto", list of array-like, mapping or Domain, default="auto"
        The values that each column may take: a list of values a column, or ``{column: values}``. An `Interval` instead
        of values cuts a numeric column into bins, which are reported as the number in their middle. None among the
        values declares missing. ``"auto"`` takes what a dtype declares (a polars Enum; categories of pandas that are
        ordered, or are not just the values that occur) and reads the data of other columns, with a
        `PrivacyLeakWarning`.
    handle_unknown : {"error", "uniform"} or a declared value, default="error"
        What to do with a value (or a missing one) that is not declared: raise an error, replace it by a uniform draw
        from the domain before it is randomised, or by the given value. An error shows that the value occurs;
        the reports under the other two do not. The time of a call shows, of a column of Python objects, how many
        values are not text, numbers, booleans or None (about a microsecond each), and how long text is.
    memoize : bool, default=False
        Whether a record that reports again repeats its report, so that the average of many reports shows no more than
        one does ([3]_). The report is then a function of `secret_key`, record id, column and value, and no table is
        kept; `transform` needs ``record_id``.
    secret_key : bytes, optional
        With `memoize`: at least 16 bytes, such as ``SecretKey.generate()`` or ``SecretKey(kept_bytes)``, which are not
        shown when the estimator is printed, as plain bytes are. A pickle of the estimator holds the key.
    instantaneous_epsilon : float, optional
        With `memoize`: the privacy loss of a single report, less than epsilon. Each report is the permanent one with
        fresh noise on it; m of them may cost more than m times a single one, and all together no more than epsilon.
        Shared among the columns as epsilon is.
    ledger : PrivacyLedger, optional
        Charged with `guarantee_` at each call of `transform`, before any randomness is drawn.
    random_state : int, optional
        None uses secure randomness. An int gives a reproducible stream, for tests and experiments only: with it, the
        noise can be undone. It differs between classes, column names and calls, and starts again with `fit`; equal
        names (the ``x0`` of two arrays) share it.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        What a call of `transform` promises for one record, computed from the integer probabilities and rounded up;
        with `memoize`, what all calls together promise for a record whose values stay the same.
    local_epsilon_ : float
        With `Shuffled`, the epsilon of one record that was found.
    domain_ : Domain
        The declared values of every column.
    categories_ : list of ndarray
        The same as a list, as `OneHotEncoder` has it; the bins of an `Interval` as text.
    oracles_ : tuple of RandomizedResponse
        The protocol of each column, or of all ("joint").
    permanent_oracles_ : tuple of FrequencyOracle
        With `memoize`, the protocol of the permanent reports; `oracles_` are those of a single report.
    instantaneous_guarantee_ : PrivacyGuarantee
        With `instantaneous_epsilon`, what a single report promises.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Their names, if X had string names.

    See Also
    --------
    sklearn.preprocessing.OneHotEncoder : Turns the reports into numbers for a model.

    Notes
    -----
    **Privacy.** Local model: holds against every recipient of the output, for each record, under replacement of the
    record's values in the fitted columns; epsilon as stated by `guarantee_`, at most the parameter, ``delta = 0``.
    Under "split" the epsilons of the columns add up. `fit` reads column names and dtypes, and the data only where
    ``categories="auto"`` finds no declared dtype. Every call of `transform` is a new release, at fit and at predict
    time alike, unless it is memoised: m releases of a record cost m times epsilon. Other columns of the same person are
    not protected, and may reveal these ones. The row index passes through: reset it before publishing if it identifies
    a person; a level with the name of a fitted column is refused. The dtypes of the output depend on the declaration
    and the dtypes of the input only.

    **Repeated collection.** With `memoize`, `guarantee_` is what all reports of a record cost together while its values
    stay the same, towards anyone without the key; with it, the noise can be undone. Each further distinct value
    of a column costs as much again, up to the number of its values (`guarantee_for_changes`). *That* a value changed,
    and when, is not hidden: without a second round, two different reports of a record prove it. The ledger cannot see
    what changed, so it is charged with `guarantee_` at each call. Column names, categories and epsilon enter the keyed
    function: the reports of an encoder with other ones cost extra, and tables with equal column names (the ``x0`` of
    two arrays) need keys of their own. The draws that replace an undeclared value, or choose the column under "sample",
    are keyed too. The estimates from each call are unbiased and have the stated errors, but the permanent part of the
    errors is the same in all calls, and in all rows of one id.

    The unbiased estimate of a count c out of n has the variance
    ``(c p (1 - p) + (n - c) q (1 - q)) / (p - q)**2`` (with p the probability of the truth and q of each other value;
    equation (4) of [2]_ is its value at c = 0).

    References
    ----------
    .. [1] P. Kairouz, S. Oh, P. Viswanath (2016). Extremal mechanisms for local differential privacy. JMLR 17.
    .. [2] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private protocols for frequency estimation.
       USENIX Security.
    .. [3] H. Arcolezi et al. (2022). Improving the utility of locally differentially private protocols for longitudinal
       and multidimensional frequency estimates. Digital Communications and Networks.

    Examples
    --------
    Is the occupation of a person "Sales"? Two coins decide the answer (Warner 1965): heads, the truth; tails, yes or no
    by the second coin. That is epsilon = ln 3.

    >>> import math
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> people = pd.DataFrame({"sales": ["yes"] * 3_650 + ["no"] * 28_911})
    >>> encoder = RandomizedResponseEncoder(math.log(3), categories={"sales": ["yes", "no"]}, random_state=0)
    >>> reports = encoder.fit_transform(people)
    >>> [[round(float(share), 3) for share in row] for row in encoder.channel()[0]]
    [[0.75, 0.25], [0.25, 0.75]]
    >>> reports.value_counts().to_dict()
    {('no',): 22546, ('yes',): 10015}
    >>> encoder.estimate_counts(reports).round(0)
             count  std_error    lower    upper
    sales
    yes     3750.0      156.0   3443.0   4056.0
    no     28812.0      156.0  28505.0  29118.0

    The same persons, asked again and again: their reports stay the same.

    >>> from skdp.local import SecretKey
    >>> weekly = RandomizedResponseEncoder(
    ...     1.0, categories={"sales": ["yes", "no"]}, memoize=True, secret_key=SecretKey.generate()
    ... ).fit(people)
    >>> first, second = (weekly.transform(people, record_id=people.index) for _ in range(2))
    >>> first.equals(second)
    True
    >>> weekly.guarantee_.mechanism
    'k-ary randomised response, memoised: epsilon per distinct value of a column, at most 2 of them'
    >>> weekly.guarantee_for_changes(2).epsilon
    2.0

    A value that was not declared is refused, and not shown:

    >>> encoder.transform(pd.DataFrame({"sales": ["yes", "maybe"]}))
    Traceback (most recent call last):
        ...
    ValueError: column 'sales' holds a value, or a NaN or inf, outside the declared categories, ['yes', 'no']. \
Declare all values that can occur, and add None to declare missing. The last resort is handle_unknown='uniform': such \
rows become uniform random values, which draw all estimates towards equal counts.
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
