"""Randomise columns of keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, TypeAlias

from skdp.base import read_bounds
from skdp.domain import DomainLike
from skdp.frames import Table
from skdp.local.pairs._estimation import pair_error
from skdp.local.pairs._estimator import PairEstimator
from skdp.local.pairs._protocol import PairProtocol
from skdp.local.sets import ListEncoder, guarantee_of
from skdp.oracles import SetOracle, SetSelection, SetUnaryEncoding, SignedUnaryEncoding
from skdp.privacy import PrivacyLedger, Shuffled
from skdp.typing import Bounds

PairOracleName: TypeAlias = Literal["auto", "set_selection", "set_unary_encoding", "pckv_grr", "pckv_ue"]

_ORACLES: dict[str, Any] = {
    "set_selection": SetSelection,
    "set_unary_encoding": SetUnaryEncoding,
    "pckv_grr": partial(SetSelection, subset_size=1),
    "pckv_ue": SignedUnaryEncoding,
}
_TITLES = {
    SetSelection: "set selection of signed keys",
    SetUnaryEncoding: "unary encoding of signed keys",
    SignedUnaryEncoding: "PCKV-UE",
}


class KeyValueEncoder(PairEstimator, ListEncoder):
    """Report columns of pairs: at most `max_size` keys of a declared domain, each with a number.

    A record may rate films, or report how long it used each of some programs. One epsilon protects all of it: which
    keys it holds, how many, and their values. How many records hold each key and the mean of its values are estimated
    from the same reports. A value is rounded at random to one of its bounds, minus or plus, and the set of signed keys
    is reported by a protocol for sets: key and value are perturbed together, as in PCKV ([1]_), and the error grows as
    `max_size` where that of PCKV grows as its square.

    Parameters
    ----------
    epsilon : float or Shuffled, default=1.0
        Privacy loss of one record over all columns together, in equal parts; finite and > 0. Smaller is more private.
    categories : mapping, list of array-like, or Domain
        The keys that the pairs of each column may have: {column: keys}, or a list of keys per column. Declared from
        public knowledge, always; at least two keys.
    bounds : (low, high), mapping of column name to (low, high), or array of shape (n_features, 2)
        The public bounds of the values of each column; values beyond are moved to them.
    max_size : int or mapping of column name to int, default=5
        How many pairs of a record are reported, at least 1; public. Of more, as many are drawn at random and reported.
    oracle : {"auto", "set_selection", "set_unary_encoding", "pckv_grr", "pckv_ue"}, default="auto"
        ``"auto"``: the one with the least exact error of the counts of keys and of the sums of values. ``"pckv_grr"``:
        one signed key, by randomised response whose epsilon sampling amplifies (set selection in sets of one code).
        ``"pckv_ue"``: a sampled key as a vector of nothing, minus and plus.
    handle_unknown : {"error", "ignore"}, default="error"
        What to do with a key that is not declared: raise a ValueError, or leave the pair out.
    ledger : PrivacyLedger, optional
        Charged with `guarantee_` at each call of `transform`, before any randomness is drawn.
    random_state : int, optional
        None uses secure randomness. An int gives a reproducible stream, for tests and experiments only: with it,
        the noise can be undone.

    Attributes
    ----------
    domain_ : Domain
        The declared keys.
    bounds_ : ndarray of shape (n_features, 2)
        The bounds.
    oracles_ : tuple of SetOracle
        The protocol of each column, for the codes ``2 key`` (minus) and ``2 key + 1`` (plus).
    guarantee_ : PrivacyGuarantee
        What a call of `transform` promises for one record, computed from the exact probabilities and rounded up.
    local_epsilon_ : float
        With `Shuffled`, the epsilon of one record that was found.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Their names, if X had string names.

    Raises
    ------
    TypeError, ValueError
        By `fit`, for a parameter out of range, or a declaration that does not fit the columns. By `transform`, also for
        cells that hold no pairs, and values that are no finite numbers.

    See Also
    --------
    SetValuedEncoder : Lists of values without numbers.

    Notes
    -----
    **Privacy.** Local model: holds against every recipient of the output, for each record, under replacement of all its
    pairs in the fitted columns by any others, as many as they are; epsilon as stated by `guarantee_`, at most the
    parameter, ``delta = 0``. Rounding to signs comes before the protocol for sets, which has this epsilon for any two
    sets of signed keys. `fit` reads column names and nothing else. Every call of `transform` is a new release. Other
    columns, and the row index, are as for `RandomizedResponseEncoder`.

    The cells of a column are mappings, or lists of pairs (pandas, NumPy); in polars and pyarrow, lists of structs of
    two fields, or maps. A key that comes twice has the mean of its values. The output has two bits ``column_key-`` and
    ``column_key+`` per key.

    References
    ----------
    .. [1] X. Gu et al. (2020). PCKV: locally differentially private correlated key-value data collection with
       optimized utility. USENIX Security.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import KeyValueEncoder
    >>> ratings = pd.DataFrame({"films": [{"Alien": 4}, {"Alien": 5, "Brazil": 2}, {}, {"Brazil": 3}] * 5_000})
    >>> films = {"films": ["Alien", "Brazil", "Casablanca"]}
    >>> encoder = KeyValueEncoder(4.0, categories=films, bounds=(1, 5), max_size=2, random_state=0)
    >>> reports = encoder.fit_transform(ratings)
    >>> encoder.estimate_counts(reports).round()
                  count  std_error   lower    upper
    films
    Alien       10153.0      112.0  9934.0  10372.0
    Brazil      10000.0      111.0  9782.0  10218.0
    Casablanca    -22.0       40.0  -100.0     56.0
    >>> encoder.estimate_mean(reports).round(2)
                mean  std_error  lower  upper
    films
    Alien       4.49       0.02   4.45   4.53
    Brazil      2.47       0.03   2.41   2.52
    Casablanca   NaN        inf   1.00   5.00
    """

    protocol_: PairProtocol
    _oracles = _ORACLES
    _codes_a_value = 2
    _most_cells: float = 1 << 31

    def __init__(
        self,
        epsilon: float | Shuffled = 1.0,
        *,
        categories: DomainLike | None = None,
        bounds: Bounds | None = None,
        max_size: int | Mapping[Any, int] = 5,
        oracle: PairOracleName = "auto",
        handle_unknown: Literal["error", "ignore"] = "error",
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.categories = categories
        self.bounds = bounds
        self.max_size = max_size
        self.oracle = oracle
        self.handle_unknown = handle_unknown
        self.ledger = ledger
        self.random_state = random_state

    def _make_protocol(self, table: Table) -> PairProtocol:
        domain, oracles = self._make_oracles(table)
        titles = (_TITLES[type(oracle)] for oracle in oracles)
        guarantee = guarantee_of(oracles, domain, titles, secure=self.random_state is None)
        bounds = read_bounds(self.bounds, table.names)
        return PairProtocol(domain, oracles, guarantee, self.handle_unknown, bounds=bounds)

    def _make_oracle(self, k: int, size: int, epsilon: Any) -> SetOracle:
        if self.oracle != "auto":
            made: SetOracle = _ORACLES[self.oracle](k, size, epsilon)
            return made
        return min((make(k, size, epsilon) for make in _ORACLES.values()), key=pair_error)

    def _set_fitted(self, protocol: PairProtocol) -> None:
        super()._set_fitted(protocol)
        self.bounds_ = protocol.bounds
