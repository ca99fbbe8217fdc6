"""One local transformer for a table of columns of any kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import declares_missing, read_domain
from skdp.domain import Domain, Interval
from skdp.exact import round_up
from skdp.frames import Table
from skdp.local._frequency_oracle import FrequencyOracleEncoder
from skdp.local._oracle_encoder import Categories, input_names
from skdp.local._randomized_response import RandomizedResponseEncoder
from skdp.local.numeric import NumericPerturber
from skdp.local.protocol import Field, ReportProtocol, Sampling, ValueField
from skdp.local.table._costs import Group, Purpose, is_overlapping
from skdp.local.table._estimator import TableEstimator
from skdp.local.table._plan import TablePlan
from skdp.local.table._recommend import (
    Importance,
    Strategy,
    check_bounds,
    declared_domain_of,
    plan_of,
    sizes_of,
)
from skdp.privacy import PrivacyGuarantee, PrivacyLedger, Shuffled, shuffled_guarantee
from skdp.typing import HandleUnknown

_ROUNDS = 6
"""Plans that are tried for a guarantee after shuffling: each after the local epsilon that the last one reaches."""


class LocalTableEncoder(TableEstimator):
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
    epsilon : float or Shuffled, default=1.0
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
        What a call of `transform` promises for one record.
    local_epsilon_ : float
        With `Shuffled`, the epsilon of one record that was found.

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
    _most_cells: float
    _most_columns: float
    _most_characters: float

    def __init__(
        self,
        epsilon: float | Shuffled = 1.0,
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
        if absent := [name for name in bounds if name not in table.names]:
            raise ValueError(
                f"bounds declares columns that X does not have: {absent}; X has {list(table.names)}"
            )
        known = (
            self.categories
            if isinstance(self.categories, Mapping)
            else getattr(self.categories, "columns", ())
        )
        if twice := [name for name in bounds if name in known]:
            raise ValueError(
                f"both categories and bounds declare {twice}; a column has values or numbers, not both"
            )
        places = [place for place, name in enumerate(table.names) if name not in bounds]
        values = Table(
            tuple(table.names[p] for p in places),
            tuple(table.columns[p] for p in places),
            table.native,
        )
        domain = read_domain(values, self.categories) if places else None
        sizes = sizes_of(domain)
        for name, size in sizes.items():
            if size < 2:
                raise ValueError(
                    f"column {name!r} has one category, so there is nothing to hide or to learn (more than one sample "
                    "is needed to read categories from the data); drop the column or declare its other categories"
                )

        def made(plan: TablePlan, epsilon: Fraction) -> ReportProtocol:
            return self._protocol_of(plan, epsilon, table, domain, bounds)

        def planned(epsilon: Fraction) -> TablePlan:
            return plan_of(
                epsilon,
                sizes,
                bounds,
                table.names,
                purpose=self.purpose,
                weights=self.weights,
                strategy=self.strategy,
                oracle=self.oracle,
                mechanism=self.mechanism,
                grid_size=self.grid_size,
            )

        epsilon = self._local_epsilon()
        # These mechanisms are programs, which would be solved for each epsilon.
        is_solved = bool(bounds) and self.mechanism in ("optimal", "distribution")
        if isinstance(self.epsilon, Shuffled) and not is_solved:
            epsilon = self._largest_shuffled(self.epsilon, epsilon, planned, made)
            self.local_epsilon_ = float(epsilon)
        self._plan = planned(epsilon)
        return made(self._plan, epsilon)

    def _largest_shuffled(
        self,
        wanted: Shuffled,
        least: Fraction,
        planned: Callable[[Fraction], TablePlan],
        made: Callable[[TablePlan, Fraction], ReportProtocol],
    ) -> Fraction:
        """Return about the largest local epsilon whose plan reaches a guarantee, at least one that does by itself."""
        epsilon = least
        for attempt in range(_ROUNDS):
            plan = planned(epsilon)
            reached = wanted.local_epsilon(
                lambda local: made(plan, Fraction(local)).shuffle_pairs(wanted.released)  # noqa: B023 - called now
            )
            # The plan is that of another epsilon: a little less leaves room for it.
            epsilon = Fraction(reached * (1 - attempt * 2.0**-12))
            protocol = made(planned(epsilon), epsilon)
            promise = shuffled_guarantee(
                protocol, wanted.n, wanted.delta, released=wanted.released
            )
            if promise.epsilon <= wanted.epsilon:
                return max(epsilon, least)
        return least

    def _protocol_of(
        self,
        plan: TablePlan,
        epsilon: Fraction,
        table: Table,
        domain: Domain | None,
        bounds: Mapping[Any, Any],
    ) -> ReportProtocol:
        share = epsilon / plan.n_reported
        columns = dict(zip(table.names, table.columns, strict=True))
        alone = not is_overlapping(plan.groups)
        of_all = plan.n_reported == len(plan.groups)
        fields: list[Field] = []
        losses: list[Any] = []
        for group, kind in zip(plan.groups, plan.kinds, strict=True):
            part = self._part(group, kind, share, domain, bounds, alone=alone)
            own = Table(group, tuple(columns[name] for name in group), table.native)
            protocol = part._make_protocol(own)
            (field,) = protocol.fields
            if isinstance(field, ValueField) and not of_all:
                field = replace(field, is_sampled=True)
            fields.append(field)
            losses += protocol.guarantee.losses
        epsilons = sorted((Fraction(field.epsilon) for field in fields), reverse=True)
        together = sum(epsilons[: plan.n_reported], Fraction(0))
        achieved = min(round_up(together), round_up(epsilon))
        guarantee = PrivacyGuarantee(
            achieved,
            scope=table.names,
            mechanism=f"{plan.n_reported} of {len(fields)} reports of columns"
            + ("" if of_all else ", drawn at random"),
            secure=self.random_state is None,
            losses=tuple(losses) if of_all else (),
        )
        sampling = None if of_all else Sampling(plan.weights, plan.n_reported)
        return ReportProtocol("LocalTableEncoder", tuple(fields), guarantee, sampling)

    def _part(
        self,
        group: Group,
        kind: str,
        share: Any,
        domain: Domain | None,
        bounds: Mapping[Any, Any],
        *,
        alone: bool,
    ) -> Any:
        """Return the transformer of a group, which is alone in reporting its columns or not."""
        part: Any
        if group[0] in bounds:
            own = {name: bounds[name] for name in group}
            part = NumericPerturber(
                share, mechanism=self.mechanism, bounds=own, grid_size=self.grid_size
            )
        else:
            assert domain is not None
            settings: dict[str, Any] = {
                "strategy": "joint",
                "categories": domain.select(group),
            }
            settings["handle_unknown"] = self.handle_unknown
            if kind == "randomized_response" and alone:
                part = RandomizedResponseEncoder(share, **settings)
            else:
                part = FrequencyOracleEncoder(
                    share, oracle=kind, max_report_bytes=None, **settings
                )
        for limit in (
            "_most_cells",
            "_most_columns",
            "_most_characters",
        ):  # of what others declare
            if limit in vars(self):
                setattr(part, limit, vars(self)[limit])
        return part.set_params(random_state=self.random_state)

    def _set_fitted(self, protocol: ReportProtocol) -> None:
        self.plan_ = self._plan
        del self._plan

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        check_is_fitted(self)
        given = input_names(self, self.protocol_.columns, input_features)
        return np.array(self.protocol_.names(given), dtype=object)

    @property
    def declared_domain(self) -> Domain | None:  # numpydoc ignore=RT01
        """The declared values and bounds of the columns, before or after `fit`."""
        declared = self.protocol_.declared if hasattr(self, "protocol_") else None
        bounds = check_bounds(self.bounds)
        if declared is not None:
            bounds = declared.get("bounds", {})
        if declared is None and not isinstance(self.categories, Mapping | Domain):
            raise ValueError(
                "the columns of a CSV file are declared by name: categories must be a mapping or a Domain"
            )
        given: Any = self.categories
        if declared is not None:
            given = declared.get("categories", {})
        numbers = {name: Interval(*pair, bins=1) for name, pair in bounds.items()}
        values = {
            name: given[name]
            for name in (given.columns if isinstance(given, Domain) else given)
        }
        return Domain({**values, **numbers})

    def declared_row(self, sample: Table, names: Sequence[Any]) -> pd.DataFrame:
        values, bounds = self.declared_domain, check_bounds(self.bounds)
        assert values is not None
        first = {
            name: 0.0 if name in bounds else values[name].values[0]
            for name in values.columns
        }
        return pd.DataFrame(
            {name: pd.Series([value], dtype=object) for name, value in first.items()}
        )
