"""RAPPOR: values of an open vocabulary as Bloom filters whose bits are randomised twice."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from skdp.base import TableLike, check_flag
from skdp.exact import log_upper
from skdp.local._tally import ReportTally
from skdp.local._transformer import ReportTransformer
from skdp.local.memo import Memo, check_key, name_bytes
from skdp.local.protocol import ReportProtocol, refuse_impossible
from skdp.local.rappor._field import BloomField, Method, read_values
from skdp.oracles import BloomRandomizer
from skdp.privacy import (
    PrivacyGuarantee,
    PrivacyLedger,
    ReportPair,
    Shuffled,
    has_open_rows,
)
from skdp.privacy.shuffle import Released, any_pair
from skdp.tables import Table


class RapporEncoder(ReportTransformer):
    """Report each value as a Bloom filter whose bits are randomised twice ("RAPPOR").

    >>> import pandas as pd
    >>> from skdp import RapporEncoder
    >>> visits = pd.DataFrame({"home": ["a.example"] * 3_000 + ["b.example"] * 1_000})
    >>> encoder = RapporEncoder(4.0, n_bits=32)
    >>> reports = encoder.fit_transform(visits)
    >>> counts = encoder.decode(reports, ["a.example", "b.example", "c.example"])

    No domain is declared: any text, number or boolean is hashed into a filter, and the
    server asks for the counts of candidates. The permanent round flips every bit with
    probability f/2; the instantaneous round reports a permanent 1 as 1 with probability
    q, and a permanent 0 as 1 with probability p ([1]_). The output has the columns
    ``cohort`` and ``<column>_bit_<number>``. The guide page "Collect from the same
    people again" has both guarantees.

    Parameters
    ----------
    epsilon : float, Shuffled or None, default=1.0
        Privacy loss of the permanent bits of one record over all columns together, > 0;
        None with f. Of `Shuffled`, without a key, it is found for one report, at most
        50.
    f : float, optional
        Twice the probability that the permanent round flips a bit, between 0 and 1.
    p, q : float, default=0.5, 0.75
        The instantaneous round, ``0 <= p < q <= 1``; p = 0 and q = 1 leave it out.
    n_bits : int, default=128
        The size of the filter, from 2 to 65,536.
    n_hashes : int, default=2
        The number of hash functions, from 1 to `n_bits`. Two values differ in up to
        twice as many bits, over which epsilon is spread.
    n_cohorts : int, default=8
        The number of groups of records with hash functions of their own: values that
        share bits in one cohort are distinguished in another.
    handle_missing : {"error", "value"}, default="error"
        Whether missing values are refused, which shows that one occurs, or are one more
        value (candidate None).
    secret_key : bytes, optional
        At least 16 bytes, such as ``SecretKey.generate()``: a record repeats its
        permanent bits, and `transform` needs ``record_id``.
    constant_values : bool, default=False
        With a key, whether the values of a record are the same in all calls. Then the
        ledger is charged once, at the first call; otherwise at each.
    ledger : PrivacyLedger, optional
        Charged with `guarantee_` at each call of `transform`, before any draw.
    random_state : int, optional
        None is secure. An int is reproducible, and not private: for tests only.
        Permanent bits with a key depend on the key instead.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        What a call of `transform` spends: `permanent_guarantee_` with a secret key,
        else `instantaneous_guarantee_`.
    permanent_guarantee_ : PrivacyGuarantee
        What all reports of the same values together promise where a key keeps the bits.
    instantaneous_guarantee_ : PrivacyGuarantee
        What a single report promises; never more epsilon than `permanent_guarantee_`.
    randomizer_ : BloomRandomizer
        The protocol, with its exact probabilities.

    See Also
    --------
    HeavyHitters : Finds the frequent words without a list of candidates.

    Notes
    -----
    **Privacy.** Local model: for each record, under replacement of its values in the
    fitted columns, against everybody without the key; columns add up. Without a key
    both rounds are fresh: m calls cost m times `instantaneous_guarantee_`. With one,
    all calls together cost `permanent_guarantee_` for each distinct value that a record
    has had; whether and when a value changes is not hidden. Encoders with other
    `n_bits`, `n_hashes`, `n_cohorts` or f cost extra. `fit` keeps column names only.
    The guide page "What all encoders share" explains what is not covered.

    References
    ----------
    .. [1] Ú. Erlingsson, V. Pihur, A. Korolova (2014). RAPPOR: randomized aggregatable
       privacy-preserving ordinal response. CCS.
    """

    without_instantaneous: ClassVar[Mapping[str, float]] = {"p": 0.0, "q": 1.0}
    """The parameters that leave the instantaneous round out."""

    def __init__(
        self,
        epsilon: float | Shuffled | None = 1.0,
        *,
        f: float | None = None,
        p: float = 0.5,
        q: float = 0.75,
        n_bits: int = 128,
        n_hashes: int = 2,
        n_cohorts: int = 8,
        handle_missing: Literal["error", "value"] = "error",
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

    def _make_protocol(self, table: Table) -> ReportProtocol:
        self._check_parameters()
        is_permanent = self.secret_key is not None
        if is_permanent:
            for name in table.names:
                name_bytes(name, "a secret_key")  # refused if it cannot be written
        epsilon = None
        if self.epsilon is not None:
            epsilon = self._local_epsilon(
                lambda epsilon, _: self._pairs(epsilon, len(table.names))
            )
        rappor = self._randomizer(epsilon, len(table.names), self.f)
        missing = self.handle_missing == "value"
        for name, column in zip(table.names, table.columns, strict=True):
            read_values(name, column, missing)
        guarantee = self._promise(rappor, table.names, permanent=is_permanent)
        field = BloomField(
            table.names, rappor, guarantee.epsilon, missing, is_permanent
        )
        memo = None
        if self.secret_key is not None:
            memo = Memo(self.secret_key, "RapporEncoder", [field])
        return ReportProtocol("RapporEncoder", (field,), guarantee, memo=memo)

    def _randomizer(
        self, epsilon: float | Fraction | None, n_columns: int, f: float | None = None
    ) -> BloomRandomizer:
        share = None if epsilon is None else Fraction(epsilon) / n_columns
        return BloomRandomizer(
            self.n_bits,
            self.n_hashes,
            self.n_cohorts,
            epsilon=share,
            f=f,
            p=self.p,
            q=self.q,
        )

    def _pairs(self, epsilon: float, n_columns: int) -> tuple[ReportPair, ...]:
        """Return the pair of the worst randomiser with the epsilon of one report, given that of permanent bits."""
        ratio = self._randomizer(epsilon, n_columns).report_ratio
        return (any_pair(log_upper(ratio**n_columns)),)

    def shuffle_pairs_at(
        self, epsilon: float, released: Released
    ) -> tuple[ReportPair, ...]:
        check_is_fitted(self)
        return self._pairs(epsilon, len(self.protocol_.columns))

    def _promise(
        self, rappor: BloomRandomizer, names: tuple[Any, ...], *, permanent: bool
    ) -> PrivacyGuarantee:
        return PrivacyGuarantee(
            log_upper(
                (rappor.permanent_ratio if permanent else rappor.report_ratio)
                ** len(names)
            ),
            scope=names,
            mechanism="RAPPOR, permanent bits" if permanent else "RAPPOR, one report",
            secure=self.random_state is None,
            losses=rappor.losses(permanent=permanent) * len(names),
        )

    def _set_fitted(self, protocol: ReportProtocol) -> None:
        field: Any = protocol.fields[0]
        self.randomizer_ = field.randomizer
        self.permanent_guarantee_, self.instantaneous_guarantee_ = (
            self._promise(field.randomizer, protocol.columns, permanent=permanent)
            for permanent in (True, False)
        )
        self._once, self._charged = (
            protocol.permanent_key is not None and bool(self.constant_values),
            False,
        )

    def _check_parameters(self) -> None:
        if self.handle_missing not in ("error", "value"):
            raise ValueError(
                "handle_missing must be 'error' or 'value', got "
                f"{self.handle_missing!r}"
            )
        check_flag("constant_values", self.constant_values)
        check_key(self.secret_key)

    def charge(self, run: str | None = None, *, n_rows: int | None = None) -> None:
        ledger = self.charged_ledger
        if self._charged:
            return
        super().charge(run, n_rows=n_rows)
        # What was charged for some rows does not pay for the reports of others.
        in_part = ledger is not None and has_open_rows(ledger)
        self._charged = self._once and not in_part

    def check_budget(self) -> None:
        if not self._charged:
            super().check_budget()

    def declared_row(self, sample: Table, names: Sequence[Any]) -> pd.DataFrame:
        return pd.DataFrame({name: [""] for name in names})

    def decode(
        self,
        reports: TableLike | ReportTally,
        candidates: Sequence[Hashable] | Mapping[Any, Sequence[Hashable]],
        *,
        method: Method = "nnls",
    ) -> pd.DataFrame:
        """Estimate how many records truly have each candidate value.

        The counts of ones, freed of the expected noise, are regressed on the filters of the candidates (a row a bit of
        a cohort), together with a constant part for all values that are no candidates.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, one a record, or their sums.
        candidates : list, or mapping of column to list
            The values to count; a mapping if there are several columns.
        method : {"nnls", "lasso", "least_squares"}, default="nnls"
            ``"nnls"``: least squares with counts that are not negative. ``"lasso"``: a lasso with counts that are not
            negative chooses the candidates that occur, and "nnls" counts these; for long lists, also longer than there
            are bits. ``"least_squares"``: unbiased, possibly negative.

        Returns
        -------
        pandas.DataFrame
            ``count, std_error``, indexed by candidate for one column, by (column, candidate) for several. The standard
            error is that of unconstrained least squares on the candidates that are counted: of the randomness of both
            rounds, and of the cohorts that the records of each candidate happen to be in. It is nan for a candidate
            that the lasso did not choose, and for all if the bits do not distinguish them. It does not include how
            values outside the list collide with candidates: of 8 cohorts, one unlisted value that half of 300,000
            records have makes the errors 2.7 times the stated ones. List every frequent value.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another encoder, a candidate is repeated or of a kind that cannot
            be reported, or "least_squares" cannot distinguish the candidates.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable with other candidates.

        Records that report several times in `reports` count as many, and the errors are then too small, since the
        permanent bits are the same.
        """
        check_is_fitted(self)
        tally = reports if isinstance(reports, ReportTally) else self.tally(reports)
        counts = self.protocol_.estimate(tally, candidates=candidates, method=method)
        refuse_impossible(self.protocol_, tally)
        return counts

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        return np.array(self.protocol_.names(names), dtype=object)
