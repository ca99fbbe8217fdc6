"""Randomised response for the columns of a table."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from skdp.domain import Codes
from skdp.frames import Table
from skdp.local._base import LocalTransformer
from skdp.local._input import read_input
from skdp.oracles import RandomizedResponse
from skdp.privacy import PrivacyLedger


class RandomizedResponseEncoder(OneToOneFeatureMixin, LocalTransformer):
    """Randomise each value so that one record reveals little and the counts can still be estimated.

    Every value of the declared domain is reported truthfully with probability ``e^eps / (e^eps + k - 1)`` and as any
    other value with equal probability otherwise (k-ary randomised response, [1]_). The output has the columns, names
    and dtypes of the input, so `OneHotEncoder` can follow it.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together; finite and > 0. Smaller is more private.
    strategy : {"split", "joint"}, default="split"
        ``"split"``: each column is randomised by itself, with an equal share of epsilon. ``"joint"``: the columns are
        one attribute with a value for each cell of their Cartesian product; it keeps how the columns go together, and
        suits a few columns with few values.
    categories : "auto", list of array-like, mapping or Domain, default="auto"
        The values that each column may take: a list of values a column, or ``{column: values}``. An `Interval` instead
        of values cuts a numeric column into bins, which are reported as the number in their middle. None among the
        values declares missing. ``"auto"`` takes what a dtype declares (pandas categories, polars Enum) and reads the
        data of other columns, with a `PrivacyLeakWarning`.
    handle_unknown : {"error", "uniform"} or a declared value, default="error"
        What to do with a value (or a missing one) that is not declared: raise an error, replace it by a uniform draw
        from the domain before it is randomised, or by the given value. An error shows that the value occurs;
        the other two show nothing.
    ledger : PrivacyLedger, optional
        Charged with `guarantee_` at each call of `transform`, before any coin is drawn.
    random_state : int, optional
        None draws secure coins. An int gives a reproducible stream, for tests and experiments only: whoever knows it
        can undo the noise. It differs between classes, column names and calls, and starts anew with `fit`; equal names
        (the ``x0`` of two arrays) share it.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        What a call of `transform` promises for one record, computed from the integer probabilities and rounded up.
    domain_ : Domain
        The declared values of every column.
    categories_ : list of ndarray
        The same as a list, as `OneHotEncoder` has it; the bins of an `Interval` as text.
    oracles_ : tuple of RandomizedResponse
        The protocol of each column ("split"), or the one of all ("joint").
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Their names, if X had string names.

    Raises
    ------
    TypeError, ValueError
        By `fit`, for a parameter out of range or a domain that does not fit.

    See Also
    --------
    sklearn.preprocessing.OneHotEncoder : Turns the reports into numbers for a model.

    Notes
    -----
    **Privacy.** Local model: holds against whoever receives the output, for each record, under replacement of the
    record's values in the fitted columns; epsilon as stated by `guarantee_`, at most the parameter, ``delta = 0``.
    Under "split" the epsilons of the columns add up. `fit` reads column names and dtypes, and the data only where
    ``categories="auto"`` finds no declared dtype. Every call of `transform` is a new release, at fit and at predict
    time alike: m releases of a record cost m times epsilon. Other columns of the same person are not in the output, are
    not protected, and may reveal these ones. The row index passes through: reset it before publishing if it identifies
    anybody. The dtypes of the output depend on the declaration and the dtypes of the input only.

    The unbiased estimate of a count c out of n has the variance
    ``(c p (1 - p) + (n - c) q (1 - q)) / (p - q)**2`` (with p the probability of the truth and q of each other value;
    equation (4) of [2]_ is its value at c = 0).

    References
    ----------
    .. [1] P. Kairouz, S. Oh, P. Viswanath (2016). Extremal mechanisms for local differential privacy. JMLR 17.
    .. [2] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private protocols for frequency estimation.
       USENIX Security.

    Examples
    --------
    Is somebody's occupation "Sales"? Two coins decide what is answered (Warner 1965): heads, the truth; tails, yes or
    no by the second coin. That is epsilon = ln 3.

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

    A value that was not declared is refused, and not shown:

    >>> encoder.transform(pd.DataFrame({"sales": ["yes", "maybe"]}))
    Traceback (most recent call last):
        ...
    ValueError: column 'sales' holds a value, or a NaN or inf, outside the declared categories. Declare it, or set \
handle_unknown='uniform'.
    """

    _mechanism = "k-ary randomised response"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        strategy: str = "split",
        categories: Any = "auto",
        handle_unknown: Any = "error",
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.strategy = strategy
        self.categories = categories
        self.handle_unknown = handle_unknown
        self.ledger = ledger
        self.random_state = random_state

    def _make_oracle(self, k: int, epsilon: Fraction) -> RandomizedResponse:
        return RandomizedResponse(k, epsilon)

    def _writer(self, table: Table) -> Callable[[list[Codes]], Any]:
        decoders = self.domain_.decoders(table.columns)

        def write(reports: list[Codes]) -> Any:
            if self._joint:
                reports[:] = self.domain_.split(reports.pop())
            columns = [decode(reports.pop(0)) for decode in decoders]  # the codes go as the columns come
            return table.rebuild(columns, self.domain_.columns)

        return write

    def _read_reports(self, reports: Any) -> list[NDArray[Any]]:
        check_is_fitted(self)
        table = read_input(self, reports, reset=False)
        self._check_names(table)
        codes = self.domain_.encode(table.columns)
        self._refuse_undeclared(codes, "These are not reports of this encoder.")
        return [self.domain_.join(codes)] if self._joint else list(codes)
