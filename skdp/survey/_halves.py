"""Two levels of noise in two random halves, which show how many people do not follow."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any, Literal, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    ColumnLike,
    ColumnName,
    OnSite,
    TableLike,
    all_or_nothing,
    apply_set_output,
    check_choice,
    check_confidence_level,
    check_names,
    read_input,
)
from skdp.local import RandomizedResponseEncoder
from skdp.privacy import PrivacyGuarantee, check_epsilon
from skdp.randomness import uniform_integers
from skdp.survey._agreement import warn_of_groups_that_differ, warn_of_impossible
from skdp.survey._design import ReportDesign, as_pandas, report_counts
from skdp.survey._likelihood import Numbers, likeliest_shares
from skdp.survey._shares import possible_shares
from skdp.tables import is_frame

HALVES = (0, 1)


class PerHalf(MetaEstimatorMixin, TransformerMixin, OnSite, BaseEstimator):
    """Randomise by one of two epsilons, drawn for each person: cheaters become visible.

    >>> import pandas as pd
    >>> from skdp import PerHalf, RandomizedResponseEncoder
    >>> people = pd.DataFrame({"copied": ["no", "yes", "no", "no"] * 500})
    >>> encoder = RandomizedResponseEncoder(categories={"copied": ["no", "yes"]}, random_state=0)
    >>> halves = PerHalf(encoder, epsilons=(0.5, 2.0))
    >>> reports = halves.fit_transform(people)
    >>> list(reports.columns)
    ['copied', 'half']
    >>> halves.estimate_frequencies(reports, cheaters="no").round(2)
              frequency  std_error  lower  upper
    copied
    no             0.75       0.06   0.62   0.87
    yes            0.25       0.02   0.21   0.30
    cheaters      -0.00       0.05  -0.10   0.09

    People who always report "no" against the instructions do so in both halves; compliant reports differ between the
    halves by the two epsilons. So the proportion of non-compliant people can be estimated with the frequencies ([1]_).

    Parameters
    ----------
    encoder : RandomizedResponseEncoder
        The encoder of both halves; it is cloned. Its epsilon is replaced by `epsilons`; its ledger is charged at each
        call. It has ``strategy="split"`` and no permanent reports.
    epsilons : tuple of two floats, default=(0.5, 2.0)
        The different epsilons of half 0 and half 1. The error decreases with their difference.
    group : str, default="half"
        The name of the column with the half of a person, 0 or 1.

    Attributes
    ----------
    encoders_ : tuple of RandomizedResponseEncoder
        The fitted encoders of the two halves.
    guarantee_ : PrivacyGuarantee
        The guarantee of one call of `transform` for one record: the weaker one of the two halves.

    Raises
    ------
    TypeError, ValueError
        By `fit`, if the encoder is another one, or the epsilons are no two different numbers > 0.

    See Also
    --------
    ReportDesign.with_cheaters : The same for reports that no encoder of skdp made.

    Notes
    -----
    **Privacy.** Local model, replacing one record's values. The half is drawn by a fair coin from the source of the
    encoder (secure, unless it has a seed), independent of the data, and is public.

    **Only people who choose their report are detected.** Where a device randomizes the answer, a false answer has
    the distribution of a true one, and no survey can distinguish the two. Cheaters who override the outcome are
    detected: with cards and coins, or with a client of their own.

    References
    ----------
    .. [1] S. J. Clark, R. A. Desharnais (1998). Honest answers to embarrassing questions: detecting cheating in the
       randomized response model. Psychological Methods 3.

    Examples
    --------
    In a regression:

    >>> import numpy as np
    >>> from skdp import ReportLogisticRegression
    >>> model = ReportLogisticRegression(target_design=halves.design("copied", cheaters="no"))
    >>> model = model.fit(pd.DataFrame({"age": np.arange(2000) % 7}), reports)
    >>> list(model.unknown_.index)
    ['cheaters']
    """

    def __init__(
        self,
        encoder: RandomizedResponseEncoder,
        *,
        epsilons: tuple[float, float] = (0.5, 2.0),
        group: str = "half",
    ) -> None:
        self.encoder = encoder
        self.epsilons = epsilons
        self.group = group

    @all_or_nothing
    def fit(self, X: TableLike, y: ColumnLike | None = None) -> Self:
        """Fit the encoders of both halves to what is declared.

        Parameters
        ----------
        X : dataframe
            Only the column names and dtypes are used, unless the encoder reads categories.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted transformer.
        """
        encoder = self.encoder
        if type(encoder) is not RandomizedResponseEncoder:
            raise TypeError(
                "encoder must be a RandomizedResponseEncoder, whose reports a person "
                f"can choose, got {type(encoder).__name__}"
            )
        if encoder.strategy != "split" or encoder.memoize:
            raise ValueError(
                "encoder must have strategy='split' and memoize=False, got "
                f"strategy={encoder.strategy!r} and memoize={encoder.memoize!r}"
            )
        levels = self._check_epsilons()
        if not isinstance(self.group, str):
            raise TypeError(f"group must be a str, got {type(self.group).__name__}")
        if not is_frame(X):
            raise TypeError(
                "X must be a dataframe, to which the column of the halves is added; "
                f"got {type(X).__name__}"
            )
        read_input(self, X, reset=True)
        encoders = []
        for level in levels:
            each = clone(encoder).set_params(epsilon=level)
            each.set_output(transform="default")
            encoders.append(each.fit(X))
        if self.group in encoders[0].protocol_.columns:
            raise ValueError(
                f"group must not be the name of a column, got {self.group!r}"
            )
        self.encoders_ = tuple(encoders)
        guarantees = [each.guarantee_ for each in encoders]
        self.guarantee_: PrivacyGuarantee = max(
            guarantees, key=lambda guarantee: guarantee.epsilon
        )
        return self

    def _check_epsilons(self) -> tuple[float, float]:
        levels = self.epsilons
        if not isinstance(levels, tuple | list) or len(levels) != len(HALVES):
            raise ValueError(f"epsilons must be two numbers > 0, got {levels!r}")
        first, second = levels
        if check_epsilon(first) == check_epsilon(second):
            raise ValueError(
                f"epsilons must differ, or cheaters cannot be told, got {levels!r}"
            )
        return first, second

    def transform(self, X: TableLike) -> Any:
        """Report each row by the epsilon of a half that is drawn for it.

        Parameters
        ----------
        X : dataframe
            True values, with the columns of `fit`.

        Returns
        -------
        dataframe of the same kind
            The reports, and the half of each row.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if X has other columns or values that are not declared.
        BudgetExceeded
            If the ledger does not cover the release.
        """
        check_is_fitted(self)
        if not is_frame(X):
            raise TypeError(f"X must be a dataframe, got {type(X).__name__}")
        table = read_input(self, X, reset=False)
        protocols = [encoder.protocol_ for encoder in self.encoders_]
        check_names(self, table, protocols[0].columns)
        codes = protocols[0].prepare(table)
        n_rows = len(table.columns[0])
        # The charge is that of the weaker half, as each person may be in it.
        epsilons = [encoder.guarantee_.epsilon for encoder in self.encoders_]
        weaker = self.encoders_[int(np.argmax(epsilons))]
        weaker._charge()
        randomness = weaker._randomness()
        is_second = uniform_integers(randomness("half"), len(HALVES), n_rows) == 1
        # Both reports of each row are drawn, and one of them is released.
        drawn = []
        for half, protocol in zip(HALVES, protocols, strict=True):
            drawn.append(protocol.randomise(codes, [], randomness.part(half)))
        reports = []
        for first, second in zip(*drawn, strict=True):
            reports.append(np.where(is_second, second, first))
        released = protocols[0].write(reports, table)
        return apply_set_output(self, _with_column(released, self.group, is_second))

    def _planned_guarantee(self) -> PrivacyGuarantee | None:
        """Return what a call of `transform` promises with these parameters, before `fit`.

        Returns
        -------
        PrivacyGuarantee or None
            That of the weaker half, as each person may be in it; None if it is not known before `fit`.
        """
        weaker = clone(self.encoder).set_params(epsilon=max(self.epsilons))
        guarantee: PrivacyGuarantee | None = weaker._planned_guarantee()
        return guarantee

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        """Name the columns of the output.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str
            The columns, and that of the halves.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        names = [*self.encoders_[0].protocol_.report_columns, self.group]
        return np.array(list(map(str, names)), dtype=object)

    def design(
        self, column: ColumnName | None = None, *, cheaters: Any = None
    ) -> ReportDesign:
        """Return how the reports of a column come about, for a regression.

        Parameters
        ----------
        column : column name, optional
            The column; of a single one by default.
        cheaters : value, optional
            What those who do not follow always report, such as "no"; by default all follow.

        Returns
        -------
        ReportDesign
            The exact channels of both halves; with `cheaters`, also their unknown share.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the column or the value is not declared.
        """
        check_is_fitted(self)
        place = self._place_of(column)
        channels = {}
        for half, encoder in zip(HALVES, self.encoders_, strict=True):
            channels[half] = np.array(encoder.channel()[place], float)
        domain = self.encoders_[0].domain_
        name = domain.columns[place]
        values = list(domain[name].values)
        design = ReportDesign(name, channels, values=values, group=self.group)
        return design if cheaters is None else design.with_cheaters(cheaters)

    def _place_of(self, column: Any) -> int:
        names = list(self.encoders_[0].domain_.columns)
        if column is None and len(names) == 1:
            return 0
        if column not in names:
            raise ValueError(f"column must be one of {names}, got {column!r}")
        return names.index(column)

    def estimate_frequencies(
        self,
        reports: TableLike,
        *,
        column: ColumnName | None = None,
        cheaters: Any = None,
        postprocess: Literal["none", "simplex"] = "none",
        confidence_level: float = 0.95,
    ) -> pd.DataFrame:
        """Estimate the shares of the values in the population, and of those who do not follow.

        Parameters
        ----------
        reports : dataframe
            What `transform` returned.
        column : column name, optional
            The column; of a single one by default.
        cheaters : value, optional
            What those who do not follow always report, such as "no"; by default all follow.
        postprocess : {"none", "simplex"}, default="none"
            Shares of maximum likelihood, which may be negative by chance; or the most likely ones from 0 to 1, with
            intervals that end there.
        confidence_level : float, default=0.95
            The coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``frequency, std_error, lower, upper`` of each value, and of "cheaters": of whom the true value is not
            known, so that all shares add up to 1: no + yes + cheaters = 1. `ReportDesign.with_cheaters`, which `design`
            is made by, counts them inside "no", and there no + yes = 1.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if a column is missing, holds reports that are not declared, or one half has no reports.

        Notes
        -----
        **Privacy.** Post-processing of reports: free.

        A ``ModelWarning`` tells of a share more than six standard errors below 0 or above 1.
        """
        check_choice("postprocess", postprocess, ("none", "simplex"))
        level = check_confidence_level(confidence_level)
        design = self.design(column)
        counts = report_counts(design, as_pandas(reports, "reports"))
        if (counts.sum(axis=1) == 0).any():
            raise ValueError("reports must have rows of both halves")
        index = list(design.values)
        channels = [design.channels[half] for half in HALVES]
        if cheaters is not None:
            if cheaters not in design.values:
                raise ValueError("cheaters must be one of the declared values")
            always = np.equal(np.arange(len(index)), index.index(cheaters))
            # One more kind of people: their report depends on nothing.
            channels = [np.vstack([channel, always]) for channel in channels]
            index.append("cheaters")
        stacked = np.stack(channels)
        shares = likely_shares(stacked, counts)
        fitted = _probabilities(stacked, shares)
        warn_of_groups_that_differ(
            design.column, counts, counts, fitted, len(shares) - 1
        )
        possible_errors = share_errors(stacked, counts, possible_shares(shares))
        excess = np.maximum(-shares, shares - 1)
        warn_of_impossible(design.column, index, shares, excess, possible_errors)
        std_error = share_errors(stacked, counts, shares)
        reach = NormalDist().inv_cdf((1 + level) / 2) * std_error
        lower, upper = shares - reach, shares + reach
        if postprocess == "simplex":
            lower, upper = np.clip(lower, 0, 1), np.clip(upper, 0, 1)
            shares = nonnegative_shares(stacked, counts)
        columns = {
            "frequency": shares,
            "std_error": std_error,
            "lower": lower,
            "upper": upper,
        }
        return pd.DataFrame(columns, index=pd.Index(index, name=design.column))


def _with_column(frame: Any, name: str, is_second: NDArray[np.bool_]) -> Any:
    """Return a frame of any library with the column of the halves."""
    halves = is_second.astype(np.int64)
    if isinstance(frame, pd.DataFrame):
        return frame.assign(**{name: halves})
    table = nw.from_native(frame, eager_only=True)
    column = nw.new_series(name, halves, backend=table.implementation)
    return table.with_columns(column).to_native()


def _probabilities(channels: Numbers, shares: Numbers) -> Numbers:
    """Return the probability of each report in each half: (n_halves, n_reports)."""
    probabilities: Numbers = np.einsum("hvr,v->hr", channels, shares)
    return probabilities


def _information(channels: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
    """Return the information of all shares but the last, and how these change the reports."""
    # The last share is what is left of 1.
    slopes = channels[:, :-1] - channels[:, -1:]
    return np.einsum("hvr,hr,hwr->vw", slopes, weights, slopes), slopes


def likely_shares(channels: Numbers, counts: Numbers) -> Numbers:
    """Return the shares of maximum likelihood, which may be negative; they add up to 1.

    `channels` is (n_halves, n_values, n_reports), `counts` (n_halves, n_reports).
    """
    n_values = channels.shape[1]
    sizes = counts.sum(axis=1, keepdims=True)
    observed = counts / sizes
    # Probabilities are linear in the shares: least squares, weighted again by their own
    # result, end at the maximum of the likelihood.
    shares = np.full(n_values, 1 / n_values)
    fitted = _probabilities(channels, shares)
    # Of the estimate, which needs three to ten; with shares near 0, some tens.
    most_steps = 200
    # Of shares, from which on they are those of maximum likelihood.
    smallest_step = 1e-12
    # Expected reports of a kind, below which weights do not rise further.
    least = 1e-3
    for _ in range(most_steps):
        weights = sizes / np.maximum(fitted, least / sizes)
        information, slopes = _information(channels, weights)
        score = np.einsum("hvr,hr->v", slopes, weights * (observed - fitted))
        step = np.linalg.solve(information, score)
        shares = shares + np.append(step, -step.sum())
        fitted = _probabilities(channels, shares)
        if np.abs(step).max() < smallest_step:
            break
    return shares


def share_errors(channels: Numbers, counts: Numbers, shares: Numbers) -> Numbers:
    """Return the standard errors of shares of maximum likelihood."""
    sizes = counts.sum(axis=1, keepdims=True)
    fitted = np.maximum(_probabilities(channels, shares), 0)
    n_reports = channels.shape[2]
    # Reports of each kind that variances count in addition, or they would be 0 where a
    # report did not occur. The interval of the share of cheaters then holds it in at
    # least .92 of cases, exact over all reports of two halves of 50; in .60 without
    # (test).
    added = 1.0
    smoothed = (sizes * fitted + added) / (sizes + n_reports * added)
    information, _ = _information(channels, sizes / smoothed)
    covariance = np.linalg.inv(information)
    # That of the last share, by the others.
    return np.sqrt(np.append(np.diag(covariance), covariance.sum()))


def nonnegative_shares(channels: Numbers, counts: Numbers) -> Numbers:
    """Return the shares of maximum likelihood among those that are at least 0."""
    # A half and a report together are what is seen of a person: (n_seen, n_values).
    likelihoods = np.moveaxis(channels, 1, 2).reshape(counts.size, -1)
    # Of shares from 0 to 1: a fifth of a second, and mostly some hundred.
    most_em_steps = 20_000
    return likeliest_shares(
        likelihoods, counts.ravel(), n_steps=most_em_steps, smallest_step=1e-12
    )
