"""A table from randomised reports: a graphical model of what they say, and rows drawn from it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Literal, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import CallCounter, all_or_nothing, check_random_state, level_of_the_caller
from skdp.domain import Domain, Interval
from skdp.frames import Table, is_frame, read_table
from skdp.local import ReportTally, ReportTransformer, TableTally
from skdp.oracles import check_size
from skdp.privacy import PrivacyGuarantee
from skdp.synthesis._count_errors import CountErrors, Quantile, Query, errors_of_estimates
from skdp.synthesis._rows import ModelRows
from skdp.synthesis.model import MOST_CELLS
from skdp.synthesis.reports import (
    MeasuredReports,
    Reported,
    check_encoder,
    check_reported,
    measure_reports,
    read_reported,
)
from skdp.synthesis.selection import Plan, check_size_of_model, given, read_zeros
from skdp.synthesis.tables import public_template
from skdp.typing import ColumnLike, ColumnName, TableLike

Marginals = Literal["auto", "independent"] | Sequence[Sequence[ColumnName]]
"""Which columns a model has together."""


class ReportSynthesizer(ModelRows):
    """Learn a table from randomised reports, without a trusted curator, and draw synthetic rows.

    `fit` takes what a local transformer returned, or its tally. It estimates the counts of each column, and of pairs of
    columns, with their exact covariances, and fits a graphical model to them: the answers are those of
    `DPMarginalSynthesizer`, but nobody has ever held the table.

    Parameters
    ----------
    encoder : local transformer
        The fitted transformer that made the reports, such as `LocalTableEncoder`, `RandomizedResponseEncoder` or
        `FrequencyOracleEncoder`, of declared values, without permanent reports. It is used as it is. Where scikit-learn
        clones, wrap it: ``FrozenEstimator(encoder)``.
    marginals : {"auto", "independent"} or list of tuples, default="auto"
        Which columns the model has together. ``"auto"``: the pairs whose dependence the reports show beyond their
        noise, and the triples of columns of one group that show more than their pairs. ``"independent"``: none. Or a
        list of tuples of column names: of columns of one group of the reports, or two columns that records report both;
        of at most 1,500 cells.
    structural_zeros : list of mapping of column name to values, or tuple, optional
        Combinations that cannot occur, and rules, from public knowledge, as for `DPMarginalSynthesizer`.
    max_cells : int, default=100_000
        The most cells of a clique of the model; memory and time are in proportion to it.
    max_iter : int, default=300
        The most steps in which the model is fitted.
    random_state : None or int, default=None
        Of the rows that are drawn: None for other rows in each process; an int for the same ones. Neither matters for
        privacy.

    Attributes
    ----------
    domain_ : Domain
        The values of each column.
    guarantee_ : PrivacyGuarantee
        That of the reports: what one call of the encoder promised to each record.
    pair_scores_ : DataFrame
        For each pair of columns of which the reports tell: ``gain``, the estimated share of the records that
        independent columns would misplace, after shrinkage; ``log_ratio``, the logarithm of the likelihood ratio of
        dependence to independence; ``chosen``, whether the model has it.
    selected_cliques_ : list of tuple
        The columns that were measured, alone and together.
    marginals_ : list of Marginal
        What the model was fitted to: counts, with the inverse of their covariances.
    model_ : GraphicalModel
        The distribution of the rows.
    n_rows_ : int
        The number of records that reported, which is public.
    n_iter_ : int
        The number of models that the fit went through, the first one included.
    n_features_in_ : int
        The number of columns that are reported, not of those of the reports.
    feature_names_in_ : ndarray of str
        Their names, if all of them are strings.

    See Also
    --------
    DPMarginalSynthesizer : The same with a trusted curator, at a fraction of the error.
    LocalTableEncoder : Its ``purpose="pairs"`` has the least error of pairs of columns.

    Notes
    -----
    **Privacy.** Local model: no curator is trusted. All is computed from the reports, which anybody may see: nothing is
    drawn, no ledger is charged, and `guarantee_` is that of the reports. The model, rows that are drawn from it, and
    all other methods are post-processing: free, and repeatable. Several tables of reports of the same records add up,
    as their ledger has it. `score_samples` and `score` depend on the rows that they are given.

    A tally of columns that are reported apart has lost what goes together, and so has ``strategy="sample"``: the model
    then has independent columns, and a warning says so. Give the reports themselves, of two or more columns a record.

    From reports of two columns apart, a pair is estimated by the inverse of both channels ([1]_, [2]_), whose noise
    grows as their product: much more of it than from columns that are one group. Only the deviation of a pair from
    independent columns is taken from it. It is weighed by the inverse of its exact covariances, and shrunk as far as
    they explain it: to its mean given the reports, where dependence and independence are as likely before, and all
    scales of dependence alike (a form of [3]_). ``"auto"`` takes, in the order of ``gain``, the pairs whose
    ``log_ratio`` is above 2, as long as the model is small enough; noise alone gets there with a probability of at most
    ``exp(-2)``. All this is computed from reports, so the choice is free, unlike a curator's.

    References
    ----------
    .. [1] X. Ren, C.-M. Yu, W. Yu, S. Yang, X. Yang, J. A. McCann, P. S. Yu (2018). LoPub: high-dimensional
       crowdsourced data publication with local differential privacy. IEEE TIFS 13(9).
    .. [2] Z. Zhang, T. Wang, N. Li, S. He, J. Chen (2018). CALM: consistent adaptive local marginal for marginal
       release under local differential privacy. CCS.
    .. [3] B. Efron, C. Morris (1973). Stein's estimation rule and its competitors: an empirical Bayes approach. JASA
       68(341).

    Examples
    --------
    >>> from skdp import LocalTableEncoder, ReportSynthesizer
    >>> from skdp.datasets import load_adult
    >>> adult = load_adult()
    >>> people = adult.frame[["sex", "relationship", "income"]]
    >>> domain = adult.domain.select(people.columns)
    >>> encoder = LocalTableEncoder(4.0, categories=domain, purpose="pairs", random_state=0)
    >>> synthesizer = ReportSynthesizer(encoder.fit(people), random_state=0).fit(encoder.transform(people))
    >>> synthesizer.sample(3)
          sex relationship income
    0  Female    Own-child  <=50K
    1    Male    Own-child  <=50K
    2    Male      Husband  <=50K
    >>> synthesizer.pair_scores_.round(2)
                               gain  log_ratio  chosen
    first        second
    sex          relationship  0.27    6322.11    True
    relationship income        0.19    2808.18    True
    sex          income        0.09     486.00    True
    >>> round(synthesizer.count({"sex": "Male", "income": ">50K"}))
    6562
    >>> print(synthesizer.guarantee_)
    epsilon = 4, local model, replacing one record's values of: sex, relationship, income, NOT SECURE: the randomness
    comes from a seed
    """

    protects_rows = False
    """There is no `transform`: what is learnt is protected, and what is drawn from it."""

    reads_reports = True
    """For `privacy_statement`: after a step of a pipeline that makes the reports, nothing more is released."""

    handle_unknown = "error"

    def __init__(
        self,
        encoder: ReportTransformer,
        *,
        marginals: Marginals = "auto",
        structural_zeros: Sequence[Mapping[Any, Any] | tuple[Any, ...]] | None = None,
        max_cells: int = 100_000,
        max_iter: int = 300,
        random_state: int | None = None,
    ) -> None:
        self.encoder = encoder
        self.marginals = marginals
        self.structural_zeros = structural_zeros
        self.max_cells = max_cells
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: TableLike | ReportTally | TableTally, y: ColumnLike | None = None) -> Self:
        """Fit a model to reports.

        Parameters
        ----------
        X : what the encoder's `transform` returned, or ReportTally, or TableTally
            The reports, or their sums.
        y : None
            Ignored: a target is a column of the reports.

        Returns
        -------
        self
            The fitted synthesizer.

        Raises
        ------
        NotFittedError
            If the encoder is not fitted.
        TypeError, ValueError
            If a parameter is out of range, the encoder makes permanent reports or reports numbers, X is not of this
            encoder, there are no reports, or they do not tell of columns that `marginals` names together.

        Warns
        -----
        UserWarning
            If ``marginals="auto"`` finds no two columns of which the reports tell together.
        """
        if self._fit(X):
            warnings.warn(
                "the reports do not tell which values of two columns go together, so the columns are modelled as "
                "independent: a tally has lost it, unless columns are one group; give the reports themselves, of two "
                "or more columns a record",
                UserWarning,
                stacklevel=level_of_the_caller(),
            )
        return self

    @all_or_nothing
    def _fit(self, reports: Any) -> bool:
        """Fit; return whether nothing was known of any pair."""
        encoder = check_encoder(self.encoder)
        check_random_state(self.random_state)
        max_cells = min(check_size(self.max_cells, name="max_cells"), MOST_CELLS)
        max_iter = check_size(self.max_iter, name="max_iter", least=1)
        pairs = not isinstance(self.marginals, str) or self.marginals != "independent"
        domain, reported = read_reported(encoder, reports, pairs=pairs)
        ordered = tuple(isinstance(domain[name], Interval) for name in domain.columns)
        plan = Plan(
            domain.sizes, ordered, max_cells, max_iter=max_iter, zeros=read_zeros(self.structural_zeros, domain)
        )
        cliques = check_reported(self.marginals, domain, reported)
        check_size_of_model(plan, given([*((column,) for column in range(len(domain.sizes))), *(cliques or [])]))
        measured = measure_reports(reported, plan, cliques)
        self._set_fitted(encoder, domain, reported, measured, _template(domain, encoder.protocol_, reports))
        return cliques is None and len(domain.columns) > 1 and not measured.scores

    def _set_fitted(
        self,
        encoder: ReportTransformer,
        domain: Domain,
        reported: Reported,
        measured: MeasuredReports,
        template: Table,
    ) -> None:
        """Set the fitted attributes."""
        self.domain_, self._reported, self._protocol = domain, reported, encoder.protocol_
        self.guarantee_: PrivacyGuarantee = encoder.protocol_.guarantee
        self.model_, self.marginals_, self.n_iter_ = measured.model, measured.marginals, measured.n_iter
        self.n_rows_ = reported.n_rows
        self.pair_scores_ = _tabulated(domain, measured)
        self.n_features_in_ = len(domain.columns)
        self.__dict__.pop("feature_names_in_", None)
        if all(isinstance(name, str) for name in domain.columns):
            self.feature_names_in_ = np.array(domain.columns, object)
        self._template, self._calls, self._others = template, CallCounter(), {}

    def _errors(self, query: Query, counts: NDArray[np.float64], level: float) -> CountErrors:
        """Return the errors of counts by the model: the intervals are those of the reports' unbiased counts."""
        clique, quantile = tuple(sorted(query)), Quantile(level, gaussian=True)
        bounds = np.zeros(counts.shape), np.full(counts.shape, float(self.n_rows_))
        weights = [weight for column in clique if (weight := query[column]) is not None]
        parts = any(((weight > 0) & (weight < 1)).any() for weight in weights)
        if not clique:  # the number of reports is known
            return errors_of_estimates(counts, np.zeros(()), counts, quantile)
        if parts or not self._reported.size_of(clique):
            return errors_of_estimates(counts, np.full(counts.shape, np.nan), counts, quantile, bounds)
        estimates, shares = self._reported.counts(clique), self.model_.marginal(clique)
        if weights:
            flat = reduce(np.multiply.outer, weights).ravel()
            variance = flat @ self._reported.covariance(clique, shares) @ flat
            found = np.array(flat @ estimates.ravel()), np.sqrt(np.maximum(variance, 0))
        else:
            order = [clique.index(column) for column in query]
            variances = self._reported.variances(clique, shares)
            found = np.transpose(estimates.reshape(shares.shape), order), np.sqrt(np.transpose(variances, order))
        return errors_of_estimates(*found, counts, quantile, bounds)


def _tabulated(domain: Domain, measured: MeasuredReports) -> pd.DataFrame:
    """Tabulate the estimated dependence of columns."""
    names = [[domain.columns[pair[axis]] for pair in measured.scores] for axis in (0, 1)]
    found = np.array(list(measured.scores.values()), float).reshape(-1, 2)
    columns = {"gain": found[:, 0], "log_ratio": found[:, 1]}
    table = pd.DataFrame(columns, index=pd.MultiIndex.from_arrays(names, names=["first", "second"]))
    table["chosen"] = [any({*pair} <= {*clique} for clique in measured.chosen) for pair in measured.scores]
    return table.sort_values("gain", ascending=False, kind="stable")


def _template(domain: Domain, protocol: Any, reports: Any) -> Table:
    """Make the columns of synthetic rows: those of reports that are values, others as their values are declared."""
    names = domain.columns
    if isinstance(reports, np.ndarray):
        return public_template(read_table(np.empty((0, len(names)), object)), domain)
    frame = reports if is_frame(reports) else pd.DataFrame()
    table = read_table(frame)
    held = dict(zip(table.names, table.columns, strict=True))
    backend = nw.from_native(frame).implementation
    columns = []
    for name in names:
        if protocol.values is not None and name in protocol.values.columns and name in held:
            columns.append(held[name])
            continue
        own = domain[name]
        values = [*own.edges, *([None] if own.missing else [])] if isinstance(own, Interval) else list(own.values)
        columns.append(nw.new_series("", values, backend=backend).to_native())
    native = pd.DataFrame(columns=pd.Index(names, tupleize_cols=False)) if isinstance(frame, pd.DataFrame) else frame
    return public_template(Table(names, tuple(columns), native), domain)
