"""RAPPOR: values of an open vocabulary as Bloom filters whose bits are randomised twice."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from skdp.base import CallCounter, all_or_nothing, check_ledger, check_names, check_random_state, read_input
from skdp.coding import ColumnError
from skdp.exact import log_upper
from skdp.frames import Table
from skdp.local._row_reports import Call, Drawn, RowReports, Write
from skdp.local.memo import canonical, check_key, keyed_coins, keyed_digests, keyed_integers, read_record_ids, to_bytes
from skdp.local.rappor._estimation import RapporEstimation
from skdp.oracles import BloomRandomizer
from skdp.privacy import PrivacyGuarantee, PrivacyLedger, check_epsilon
from skdp.randomness import bernoulli, uniform_integers


class RapporEncoder(RapporEstimation, TransformerMixin, RowReports):
    """Report each value as a Bloom filter whose bits are randomised twice ("RAPPOR").

    No domain needs to be declared: any text, number or boolean is hashed into a filter, and who reads the reports asks
    for the counts of candidate values. The permanent round flips every bit of the filter with probability f/2; the
    instantaneous round reports a 1 with probability q where the permanent bit is 1, and with probability p where it is
    0. With a secret key and record ids, a record that reports again repeats its permanent bits, so that the average of
    many reports shows these, and never the value ([1]_).

    Parameters
    ----------
    epsilon : float or None, default=1.0
        Privacy loss of the permanent bits of one record over all columns together, finite and > 0: an upper bound
        for any number of memoised reports of the same values. None if f is given.
    f : float, optional
        Twice the probability that the permanent round flips a bit, between 0 and 1, instead of epsilon.
    p, q : float, default=0.5, 0.75
        The probabilities of the instantaneous round, ``0 <= p < q <= 1``; p = 0 and q = 1 leave it out.
    n_bits : int, default=128
        The size of the filter, from 2 to 65,536.
    n_hashes : int, default=2
        The number of hash functions, from 1 to `n_bits`. Two values differ in up to twice as many bits, and epsilon is
        spread over these.
    n_cohorts : int, default=8
        The number of groups of records with hash functions of their own: values that share bits in one cohort are told
        apart in another.
    handle_missing : {"error", "value"}, default="error"
        Whether missing values are refused (an error shows that one occurs), or are one more value, hashed as the others
        are (candidate None).
    secret_key : bytes, optional
        At least 16 bytes. Take ``SecretKey.generate()``, which hides itself when the estimator is printed; plain bytes
        are printed. With a key, `transform` needs ``record_id``.
    constant_values : bool, default=False
        With a key, whether the values of a record are the same in all calls. Then the ledger is charged once, at the
        first call; otherwise at each.
    ledger : PrivacyLedger, optional
        Charged with `guarantee_` at each call of `transform` (see `constant_values`), before any coin is drawn.
    random_state : int, optional
        None draws secure coins. An int gives a reproducible stream, for tests and experiments only: whoever knows it
        can undo the noise. Permanent coins that are memoised depend on the key instead.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        What a call of `transform` spends: `permanent_guarantee_` with a secret key, else `instantaneous_guarantee_`.
    permanent_guarantee_ : PrivacyGuarantee
        What all reports of a value together promise, over all columns, when its permanent bits are kept (by a secret
        key): epsilon.
    instantaneous_guarantee_ : PrivacyGuarantee
        What a single report promises, over all columns; never more epsilon than `permanent_guarantee_`.
    randomizer_ : BloomRandomizer
        The protocol, with its exact probabilities.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Their names, if X had string names.

    Raises
    ------
    TypeError, ValueError
        By `fit`, for a parameter out of range.

    See Also
    --------
    HeavyHitters : Finds the frequent words without a list of candidates.

    Notes
    -----
    **Privacy.** Local model: holds against whoever receives the output and does not know the key, for each record,
    under replacement of the record's values in the fitted columns; ``delta = 0``. No filter has more than h ones, so
    two values differ in up to 2 h bits, and the permanent bits of a column have
    ``epsilon = 2 h ln((1 - f/2) / (f/2))`` (min(2 h, n_bits) in general). A single report has
    ``h ln(q' (1 - p') / (p' (1 - q')))``, where q' and p' are the probabilities, over both rounds, that a bit which is
    set or not set is reported as 1; h is the number of pairs of bits here, so this too counts 2 h bits. Both are
    computed from the integers over 2**64 that are drawn, and rounded up. The columns add up.

    *Without* ``record_id`` both rounds are fresh at each call: a call spends `instantaneous_guarantee_`, and m calls m
    times as much, without limit. *With* it, cohort and permanent bits are a function (keyed BLAKE2b, then SHAKE-128) of
    key, record id, column and value; no table is kept. Then all calls together spend `permanent_guarantee_` for each
    distinct value that a record has had: a value that changes c times costs (c + 1) times it, against another history
    that changes at the same calls; whether and when a value changes is not hidden. The permanent coins are as
    unpredictable as the key: keep it with the client, or in a vault, and know that a pickle of the estimator holds it.
    An encoder of other `n_bits`, `n_hashes`, `n_cohorts` or f has permanent coins of its own and its cost adds up.

    `fit` keeps the column names only. The row index passes through: reset it before publishing if it identifies
    anybody.

    References
    ----------
    .. [1] Ú. Erlingsson, V. Pihur, A. Korolova (2014). RAPPOR: randomized aggregatable privacy-preserving ordinal
       response. CCS.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.local import RapporEncoder
    >>> pages = pd.DataFrame({"home": ["a.example"] * 30_000 + ["b.example"] * 15_000 + ["c.example"] * 5_000})
    >>> encoder = RapporEncoder(epsilon=None, f=0.5, n_bits=32, random_state=0)
    >>> reports = encoder.fit_transform(pages)
    >>> reports.shape, reports.columns[:3].tolist()
    ((50000, 33), ['cohort', 'home_bit_0', 'home_bit_1'])
    >>> print(encoder.permanent_guarantee_)
    epsilon = 4.39445, local model, replacing one record's values of: home, NOT SECURE: the coins come from a seed
    >>> round(encoder.instantaneous_guarantee_.epsilon, 2)
    1.07
    >>> encoder.decode(reports, ["a.example", "b.example", "c.example", "d.example"]).round(-2)
                 count  std_error
    candidate
    a.example  29000.0      600.0
    b.example  15000.0      700.0
    c.example   4700.0      600.0
    d.example      0.0      700.0
    """

    def __init__(
        self,
        epsilon: float | None = 1.0,
        *,
        f: float | None = None,
        p: float = 0.5,
        q: float = 0.75,
        n_bits: int = 128,
        n_hashes: int = 2,
        n_cohorts: int = 8,
        handle_missing: str = "error",
        secret_key: bytes | None = None,
        constant_values: bool = False,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.f = f
        self.p = p
        self.q = q
        self.n_bits = n_bits
        self.n_hashes = n_hashes
        self.n_cohorts = n_cohorts
        self.handle_missing = handle_missing
        self.secret_key = secret_key
        self.constant_values = constant_values
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = self.handle_missing == "value"
        tags.transformer_tags.preserves_dtype = []
        return tags

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the column names.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Nothing is kept but the column names; values that `transform` would refuse are refused.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted transformer.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, or X is empty, 1-D, sparse or lazy, or holds what cannot be reported.
        """
        self._check_parameters()
        table = read_input(self, X, reset=True)
        keyed = self.secret_key is not None
        if keyed:
            _check_names_can_be_written(table.names)
        share = None if self.epsilon is None else check_epsilon(self.epsilon) / len(table.names)
        rappor = BloomRandomizer(
            self.n_bits, self.n_hashes, self.n_cohorts, epsilon=share, f=self.f, p=self.p, q=self.q
        )
        for name, column in zip(table.names, table.columns, strict=True):
            _read(name, column, self.handle_missing == "value")
        names = [f"{name}_bit_{bit}" for name in table.names for bit in range(rappor.n_bits)]
        self.randomizer_ = rappor
        self.permanent_guarantee_, self.instantaneous_guarantee_ = (
            PrivacyGuarantee(
                log_upper(ratio ** len(table.names)),
                scope=table.names,
                mechanism=mechanism,
                secure=self.random_state is None,
            )
            for ratio, mechanism in (
                (rappor.permanent_ratio, "RAPPOR, permanent bits"),
                (rappor.report_ratio, "RAPPOR, one report"),
            )
        )
        self.guarantee_ = self.permanent_guarantee_ if keyed else self.instantaneous_guarantee_
        # As they were at `fit`: parameters that are set later must not change what `guarantee_` says.
        self._columns, self._names = table.names, ["cohort", *names]
        self._missing, self._key, self._constant = self.handle_missing == "value", self.secret_key, self.constant_values
        self._seed, self._ledger = self.random_state, self.ledger
        self._calls, self._charged = CallCounter(), False
        return self

    def _check_parameters(self) -> None:
        if self.handle_missing not in ("error", "value"):
            raise ValueError(f"handle_missing must be 'error' or 'value', got {self.handle_missing!r}")
        if not isinstance(self.constant_values, bool | np.bool_):
            raise TypeError(f"constant_values must be True or False, got {type(self.constant_values).__name__}")
        check_ledger(self.ledger)
        check_key(self.secret_key)
        check_random_state(self.random_state)

    def fit_transform(self, X: Any, y: Any = None, *, record_id: Any = None) -> Any:
        """Learn the column names, and privatise the same table.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values.
        y : None
            Ignored.
        record_id : array-like of shape (n_samples,), optional
            As for `transform`.

        Returns
        -------
        same kind as X
            As for `transform`.

        Raises
        ------
        TypeError, ValueError, BudgetExceeded
            As for `fit` and `transform`.
        """
        return self.fit(X, y).transform(X, record_id=record_id)

    def transform(self, X: Any, *, record_id: Any = None) -> Any:
        """Privatise a table.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values, in the columns of `fit`.
        record_id : array-like of shape (n_samples,), optional
            Who reports: text, numbers or times, all different. Needed with a secret key, and only then; in a pipeline,
            route it with ``set_transform_request(record_id=True)``.

        Returns
        -------
        same kind as X
            The column ``cohort`` and, for each column of X, the columns ``<column>_bit_0, …`` of zeros and ones.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If X has other columns, or holds missing values under ``handle_missing="error"``, or infinite ones, or the
            record ids are missing, repeated, or not wanted.
        BudgetExceeded
            If the ledger does not cover the release.
        """
        return self._release(X, record_id)

    def _prepare(self, table: Table) -> tuple[list[NDArray[Any]], Write]:
        check_names(self, table, self._columns)
        pairs = zip(self._columns, table.columns, strict=True)
        # The values themselves, as bytes: numbers of those that occur would be the same in batches of other values.
        values = [np.array(_read(name, column, self._missing), object) for name, column in pairs]
        self.randomizer_.check_size(len(values[0]) * len(values))

        def write(reports: list[NDArray[Any]], _: NDArray[Any] | None) -> Any:
            return table.rebuild(reports, self._names)

        return values, write

    def _draw(self, codes: list[NDArray[Any]], records: list[bytes], call: Call) -> Drawn:
        cohorts = self._cohorts(records, len(codes[0]), call)
        reports: list[NDArray[Any]] = [cohorts]
        for name in self._columns:
            bits = self._permanent(name, codes.pop(0).tolist(), cohorts, records, call)
            reports.append(self.randomizer_.instantaneous(bits, self._coins(call, "report", name)))
        return reports, None

    @property
    def _permanent_key(self) -> bytes | None:
        return self._key

    def _read_records(self, record_id: Any, rows: int) -> list[bytes]:
        if (self._key is None) != (record_id is None):
            raise ValueError(
                "record_id needs a secret_key" if self._key is None else "with a secret_key, transform needs record_id"
            )
        if record_id is None:
            return []
        ids = read_record_ids(record_id, rows)
        if len({*ids}) < rows:
            raise ValueError("record_id has repeated entries; a record reports once in a call")
        return ids

    def _charge(self, run: str | None = None) -> None:
        if self._ledger is not None and not self._charged:
            super()._charge(run)
            self._charged = self._key is not None and bool(self._constant)

    def _cohorts(self, records: list[bytes], rows: int, call: Call) -> NDArray[np.unsignedinteger]:
        count = self.randomizer_.n_cohorts
        if self._key is None:
            return uniform_integers(self._coins(call, "cohort"), count, rows)
        digests = keyed_digests(self._key, ("cohort", *self._protocol()), records)
        return keyed_integers(digests, count).astype(np.min_scalar_type(count - 1))

    def _permanent(
        self, name: Any, values: list[bytes], cohorts: NDArray[Any], records: list[bytes], call: Call
    ) -> NDArray[np.bool_]:
        rappor = self.randomizer_
        bits = rappor.filters(cohorts, values)
        if self._key is None:
            bits ^= bernoulli(self._coins(call, "permanent", name), rappor.flip, bits.size).reshape(bits.shape)
        else:
            purpose: tuple[str | bytes, ...] = ("permanent", *self._protocol(), canonical(name))
            bits ^= keyed_coins(keyed_digests(self._key, purpose, records, values), rappor.flip, rappor.n_bits)
        return bits

    def _own_names(self) -> list[str]:
        return self._names

    def _declaration(self) -> Any:
        return list(self._columns)

    def _settings(self) -> Any:
        return sorted(self._meaning().items()), self._missing

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Name the columns of the output.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns of the input, where `fit` saw none.

        Returns
        -------
        ndarray of str
            ``cohort`` and ``<column>_bit_<number>``.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the names are not those of `fit`.
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        bits = [f"{name}_bit_{bit}" for name in names for bit in range(self.randomizer_.n_bits)]
        return np.array(["cohort", *bits], dtype=object)


def _check_names_can_be_written(names: tuple[Any, ...]) -> None:
    for name in names:
        try:
            canonical(name)
        except ColumnError:
            raise ValueError(
                f"a secret_key needs column names of text, numbers, booleans or times; {name!r} is another"
            ) from None


def _read(name: Any, column: Any, missing: bool) -> list[bytes]:
    try:
        return to_bytes(column, missing=missing)
    except ColumnError as error:
        advice = "; set handle_missing='value' to report them as a value" if "missing" in str(error) else ""
        raise ValueError(f"column {name!r} {error}{advice}") from None
