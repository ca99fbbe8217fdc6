"""One local transformer for a table of columns of any kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skdp.base import ColumnLike, HandleUnknown, declares_missing, read_domain
from skdp.domain import Domain, Interval
from skdp.exact import round_up
from skdp.local._numeric import NumberField, estimate_means, numeric_mechanism
from skdp.local._oracle_encoder import (
    Categories,
    check_several_values,
    unknown_codes,
)
from skdp.local._table_plan import (
    Importance,
    Purpose,
    Strategy,
    TablePlan,
    check_bounds,
    declared_domain_of,
    is_overlapping,
    plan_of,
    sizes_of,
)
from skdp.local._tally import ReportTally
from skdp.local._transformer import ReportTransformer
from skdp.local.protocol import (
    CategoryField,
    ReportProtocol,
    Reports,
    Sampling,
    ShareOf,
    ValueField,
    check_columns,
    concat_columns,
    estimate_counts,
    fields_with,
    joint_counts,
    read_sample_weight,
    weighted_frequencies,
)
from skdp.oracles import Postprocess, choose_oracle
from skdp.privacy import PrivacyGuarantee, PrivacyLedger, check_epsilon
from skdp.tables import Table


class LocalTableEncoder(ReportTransformer):
    """Report a table of categories and numbers with the least error under one epsilon.

    >>> import pandas as pd
    >>> from skdp import LocalTableEncoder
    >>> people = pd.DataFrame({"sex": ["f", "m"] * 500, "age": [20, 70] * 500})
    >>> values, bounds = {"sex": ["f", "m"]}, {"age": (0, 100)}
    >>> encoder = LocalTableEncoder(1.0, categories=values, bounds=bounds)
    >>> reports = encoder.fit_transform(people)
    >>> counts, means = encoder.estimate_counts(reports), encoder.estimate_mean(reports)

    How the columns of a record share epsilon decides the error more than any oracle.
    `fit` compares the exact errors of all ways for a stated purpose, from what is
    declared alone, and takes the best; `plan_` shows them. The guide page "A whole
    table in the local model" has their formulas.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0.
    categories : "auto", mapping or Domain, default="auto"
        The values of each column that is not in `bounds`, as for
        `RandomizedResponseEncoder`.
    bounds : mapping of column name to (low, high), optional
        The columns of numbers, and their public bounds.
    purpose : {"margins", "pairs", "means", "model"}, default="margins"
        What the reports are for: shares of values and means, a column weighing by its
        values or ("means") all alike; shares of pairs of values, and means, of up to 64
        columns; or a model, for which each record reports each column, as values.
    weights : "uniform" or mapping of column name to number, default="uniform"
        How much the error of each column counts; public. Of a pair, the product counts.
    strategy : str, default="auto"
        ``"split"``, ``"joint"``, ``"sample"``, ``"weighted"``, ``"groups"``, and for
        pairs of 3 to 16 columns of categories ``"overlapping"``; ``"auto"`` takes the
        best.
    oracle : {"auto", "randomized_response"}, default="auto"
        How categories are reported: by the oracle with the least error and a report of
        at most 1,024 bytes, bits packed, or as values in columns like those of the
        input.
    mechanism : str, default="optimal"
        How numbers are reported, as for `NumericPerturber`.
    grid_size : int, default=1024
        As for `NumericPerturber`.
    handle_unknown : {"error", "uniform"}, default="error"
        As for `RandomizedResponseEncoder`, of columns of categories.
    ledger : PrivacyLedger, optional
        Charged with `guarantee_` at each call of `transform`, before any draw.
    random_state : int, optional
        None is secure. An int is reproducible, and not private: for tests only.

    Attributes
    ----------
    plan_ : TablePlan
        The groups of columns, how many of them a record reports, and all errors.
    guarantee_ : PrivacyGuarantee
        The guarantee of one call of `transform` for one record.

    See Also
    --------
    recommend_plan : The plan without a table.
    RandomizedResponseEncoder, FrequencyOracleEncoder, NumericPerturber : The reports.

    Notes
    -----
    **Privacy.** Local model: for each record, under replacement of its values in the
    fitted columns. A record reports `n_reported` groups of columns, with an equal share
    of epsilon each; these add up. Which groups they are is drawn without looking at a
    value, so it may be seen. `fit` reads names and dtypes, the data only where
    ``categories="auto"`` finds no declared dtype, and checks that numbers are finite.
    Each `transform` is a new release. The guide page "What all encoders share" explains
    what is not covered.

    If a record reports only some groups, the columns of the others hold missing values
    or zeros, and the columns ``sampled`` (or ``sampled_0``, …) say which groups of
    `plan_` it reports.

    References
    ----------
    .. [1] H. Arcolezi et al. (2023). Frequency estimation of correlated multi-attribute
       data under local differential privacy. arXiv:2205.15648
    """

    plan_: TablePlan
    # Of the values of an attribute.
    _most_cells: float = 1 << 32

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        categories: Categories = "auto",
        bounds: Mapping[Any, tuple[float, float]] | None = None,
        purpose: Purpose = "margins",
        weights: Importance = "uniform",
        strategy: Strategy = "auto",
        oracle: Literal["auto", "randomized_response"] = "auto",
        mechanism: str = "optimal",
        grid_size: int = 1024,
        handle_unknown: HandleUnknown = "error",
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.categories = categories
        self.bounds = bounds
        self.purpose = purpose
        self.weights = weights
        self.strategy = strategy
        self.oracle = oracle
        self.mechanism = mechanism
        self.grid_size = grid_size
        self.handle_unknown = handle_unknown
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        if isinstance(self.categories, Domain | Mapping) and self.categories != {}:
            tags.input_tags.allow_nan = declares_missing(
                declared_domain_of(self.categories)
            )
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _make_protocol(self, table: Table) -> ReportProtocol:
        bounds = check_bounds(self.bounds)
        domain = self._read_domain(table, bounds)

        epsilon = check_epsilon(self.epsilon)
        self._plan = plan_of(
            epsilon,
            sizes_of(domain),
            bounds,
            table.names,
            purpose=self.purpose,
            weights=self.weights,
            strategy=self.strategy,
            oracle=self.oracle,
            mechanism=self.mechanism,
            grid_size=self.grid_size,
        )
        protocol = self._protocol_of(self._plan, epsilon, table.names, domain, bounds)
        columns = dict(zip(table.names, table.columns, strict=True))
        for field in protocol.fields:
            if isinstance(field, NumberField):
                field.prepare([columns[field.name]])  # refuses what is no number
        return protocol

    def _read_domain(self, table: Table, bounds: Mapping[Any, Any]) -> Domain | None:
        """Read the values of the columns without bounds; None if there are none."""
        if absent := [name for name in bounds if name not in table.names]:
            raise ValueError(
                f"bounds declares columns that X does not have: {absent}; X has "
                f"{list(table.names)}"
            )
        declared_names = getattr(self.categories, "columns", ())
        if isinstance(self.categories, Mapping):
            declared_names = tuple(self.categories)
        if repeated := [name for name in bounds if name in declared_names]:
            raise ValueError(
                f"both categories and bounds declare {repeated}; a column has values "
                "or numbers, not both"
            )
        names = []
        columns = []
        for name, column in zip(table.names, table.columns, strict=True):
            if name not in bounds:
                names.append(name)
                columns.append(column)
        if not names:
            is_auto = isinstance(self.categories, str) and self.categories == "auto"
            is_mapping = isinstance(self.categories, Mapping | Domain)
            if not is_auto and (declared_names or not is_mapping):
                raise ValueError(
                    "categories must be 'auto' if bounds declares all columns, as no "
                    "column is left to have categories"
                )
            return None
        values = Table(tuple(names), tuple(columns), table.native)
        domain = read_domain(values, self.categories)
        check_several_values(domain)
        return domain

    def _protocol_of(
        self,
        plan: TablePlan,
        epsilon: Fraction,
        names: Sequence[Any],
        domain: Domain | None,
        bounds: Mapping[Any, Any],
    ) -> ReportProtocol:
        # Each report has the same share, whatever its size: which ones a record makes is
        # seen, and any of them add up to epsilon at most.
        share = epsilon / plan.n_reported
        is_sampled = plan.n_reported < len(plan.groups)
        fields: list[NumberField | CategoryField] = []
        for group, kind in zip(plan.groups, plan.kinds, strict=True):
            if group[0] in bounds:
                fields.append(self._number_field(group[0], share, bounds))
                continue
            assert domain is not None
            # Of a column in several groups, the reports cannot all have its name.
            is_value = kind == "randomized_response" and not is_overlapping(plan.groups)
            fields.append(
                self._category_field(
                    domain.select(group), kind, share, is_value, is_sampled
                )
            )
        # A record makes `n_reported` reports, in the worst case those that cost most.
        epsilons = sorted((Fraction(field.epsilon) for field in fields), reverse=True)
        together = sum(epsilons[: plan.n_reported], Fraction(0))
        drawn = ", drawn at random" if is_sampled else ""
        guarantee = PrivacyGuarantee(
            # The shares add up to epsilon, and none is exceeded.
            min(round_up(together), round_up(epsilon)),
            scope=tuple(names),
            mechanism=f"{plan.n_reported} of {len(fields)} reports of columns{drawn}",
            secure=self.random_state is None,
            losses=() if is_sampled else tuple(field.loss for field in fields),
        )
        sampling = Sampling(plan.weights, plan.n_reported) if is_sampled else None
        return ReportProtocol("LocalTableEncoder", tuple(fields), guarantee, sampling)

    def _number_field(
        self, name: Any, share: Fraction, bounds: Mapping[Any, Any]
    ) -> NumberField:
        mechanism = numeric_mechanism(self.mechanism, self.grid_size, share)
        low, high = bounds[name]
        return NumberField(name, (float(low), float(high)), mechanism, share)

    def _category_field(
        self,
        domain: Domain,
        kind: str,
        share: Fraction,
        is_value: bool,
        is_sampled: bool,
    ) -> CategoryField:
        """Return what columns report together, as values or as an oracle does."""
        if domain.size >= self._most_cells:
            raise ValueError(f"{domain.size:,} joint cells are too many")
        _, oracle = choose_oracle(domain.size, share, among=(kind,))
        unknown = unknown_codes(self.handle_unknown, domain)
        if is_value:
            return ValueField(domain, oracle, unknown, is_sampled=is_sampled)
        return CategoryField(domain, oracle, unknown)

    def _set_fitted(self, protocol: ReportProtocol) -> None:
        self.plan_ = self._plan
        del self._plan

    def _declared_domain(self) -> Domain:
        """Return the declared values and bounds of the columns, before or after `fit`."""
        bounds = check_bounds(self.bounds)
        categories: Any = self.categories
        declared = self.protocol_.declared if hasattr(self, "protocol_") else None
        if declared is not None:
            bounds = declared.get("bounds", {})
            categories = declared.get("categories", {})
        elif not isinstance(categories, Mapping | Domain):
            raise ValueError(
                "categories must be a mapping or a Domain: without a table, nothing else "
                "names the columns"
            )
        names = categories.columns if isinstance(categories, Domain) else categories
        columns = {name: categories[name] for name in names}
        for name, pair in bounds.items():
            columns[name] = Interval(*pair, bins=1)
        return Domain(columns)

    def _declared_row(self, sample: Table, names: Sequence[Any]) -> pd.DataFrame:
        domain = self._declared_domain()
        bounds = check_bounds(self.bounds)
        columns = {}
        for name in domain.columns:
            value = 0.0 if name in bounds else domain[name].values[0]
            columns[name] = pd.Series([value], dtype=object)
        return pd.DataFrame(columns)

    def estimate_counts(
        self,
        reports: Any,
        *,
        postprocess: Postprocess = "none",
        confidence_level: float = 0.95,
        rows: ShareOf = "table",
    ) -> pd.DataFrame:
        """Estimate how many records of the table truly have each value of each column of categories.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        postprocess : str, default="none"
            As for the `estimate_counts` of `RandomizedResponseEncoder`.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.
        rows : {"table", "population"}, default="table"
            Target of inference: the records themselves, or the population from which
            they were drawn at random, whose intervals are wider.

        Returns
        -------
        pandas.DataFrame
            ``count, std_error, lower, upper``, indexed by (column, category); empty if
            there is no such column.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another encoder, or a parameter is
            out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        return self._marginals(
            reports,
            "count",
            postprocess=postprocess,
            confidence_level=confidence_level,
            rows=rows,
        )

    def estimate_frequencies(
        self,
        reports: Any,
        *,
        postprocess: Postprocess = "none",
        confidence_level: float = 0.95,
        rows: ShareOf = "population",
        sample_weight: ColumnLike | None = None,
    ) -> pd.DataFrame:
        """Estimate the proportion of each value in the population, from a random sample of it.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        postprocess, confidence_level : optional
            As for `estimate_counts`.
        rows : {"population", "table"}, default="population"
            Target of inference: the population from which the records were drawn at
            random, or the records themselves, whose intervals are narrower.
        sample_weight : array-like of shape (n_samples,), optional
            As for the `estimate_frequencies` of `RandomizedResponseEncoder`.

        Returns
        -------
        pandas.DataFrame
            ``frequency, std_error, lower, upper``: those of `estimate_counts`, divided
            by the number of records.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            As for `estimate_counts`.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable. Weights are not
        privatised: the analyst has them beside the reports.
        """
        options: dict[str, Any] = {
            "postprocess": postprocess,
            "confidence_level": confidence_level,
            "rows": rows,
        }
        return self._marginals(reports, "frequency", sample_weight, **options)

    def _marginals(
        self, reports: Any, what: str, sample_weight: Any = None, **options: Any
    ) -> pd.DataFrame:
        arrays, tally = self._read_reports(reports)
        protocol = self.protocol_
        weights = None
        if sample_weight is not None:
            weights = read_sample_weight(sample_weight, reports, tally.n_reports)
        if protocol.domain is None:  # all columns are numbers
            index = pd.MultiIndex.from_arrays([[], []], names=["column", "category"])
            names = [what, "std_error", "lower", "upper"]
            return pd.DataFrame(columns=names, index=index, dtype=float)
        tables = {}
        for name in protocol.domain.columns:
            if weights is not None:
                tables[name] = weighted_frequencies(
                    protocol, arrays, tally, weights, [name], **options
                )
            else:
                tables[name] = estimate_counts(
                    protocol, tally, [name], reports=arrays, what=what, **options
                )
        return concat_columns(tables)

    def estimate_joint_counts(
        self,
        reports: Any,
        columns: Sequence[Any],
        *,
        confidence_level: float = 0.95,
        rows: ShareOf = "table",
    ) -> pd.DataFrame:
        """Estimate how many records of the table truly have each combination of values of some columns of categories.

        Parameters
        ----------
        reports : what `transform` returns
            Privatised rows. For columns that are reported as one group, a ReportTally
            is enough.
        columns : sequence of column names
            The columns to combine, mostly two.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.
        rows : optional
            As for `estimate_counts`.

        Returns
        -------
        pandas.DataFrame
            ``count, std_error, lower, upper``, indexed by the values of the columns.
            Without bias: from the records that report all of the columns. Where these
            are a sample, the interval holds the counts from which the estimate is not
            far (Wilson's interval, with the noise added), so it is not symmetric for
            rare combinations.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another encoder, a column is
            unknown or of numbers, or no record reports all of the columns.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        check_is_fitted(self)
        protocol = self.protocol_
        column_names = () if protocol.domain is None else protocol.domain.columns
        chosen = check_columns(column_names, columns)
        # The fields that report all of the columns at once.
        together = fields_with(protocol, *chosen)
        is_tally = isinstance(reports, ReportTally)
        # Counts of one group are sums; those of several groups, or of pairs that are
        # drawn, need the reports.
        in_several_groups = len(chosen) == 1 and len(together) > 1
        options: dict[str, Any] = {"confidence_level": confidence_level, "rows": rows}
        if is_tally and not together:
            raise ValueError(
                "columns of several groups are combined from the reports: a tally has "
                "lost what goes together"
            )
        arrays, tally = self._read_reports(reports)
        if in_several_groups or is_tally:
            return estimate_counts(protocol, tally, chosen, reports=arrays, **options)
        if not together:
            _check_reported_by_one_record(protocol, chosen)
        assert arrays is not None
        return joint_counts(protocol, arrays, chosen, **options)

    def estimate_mean(
        self, reports: Any, *, confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate the mean of each column of numbers, clipped to their bounds.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``mean, std_error, lower, upper`` for each column of numbers, as of
            `NumericPerturber`; empty if there is none.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another encoder, or the parameter
            is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        _, tally = self._read_reports(reports)
        means = estimate_means(self.protocol_, tally, confidence_level)
        if not means:
            names = ["mean", "std_error", "lower", "upper"]
            return pd.DataFrame(
                columns=names, index=pd.Index([], name="column"), dtype=float
            )
        return pd.concat(list(means.values()))

    def _read_reports(self, reports: Any) -> tuple[Reports | None, ReportTally]:
        arrays, tally = super()._read_reports(reports)
        if tally.n_reports == 0:
            raise ValueError(
                "Found a tally of 0 sample(s) (rows); at least 1 is required"
            )
        return arrays, tally


def _check_reported_by_one_record(protocol: ReportProtocol, columns: list[Any]) -> None:
    """Refuse columns whose groups no record reports all."""
    groups = set()
    for name in columns:
        groups.update(fields_with(protocol, name))
    if protocol.n_sampled is not None and protocol.n_sampled < len(groups):
        raise ValueError(
            f"no record reports the columns {columns} together: plan_ has "
            f"{protocol.n_sampled} report(s) a record"
        )
