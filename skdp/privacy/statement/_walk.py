"""Walk through a pipeline: which columns each step protects, and which true values it learns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from skdp.markup import written_text
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.ledger import PrivacyLedger
from skdp.privacy.statement._estimators import (
    Protects,
    declared_names,
    find_domains,
    find_ledgers,
    find_protection,
    fitted_names,
    has_earlier_fit,
    has_further_column,
    has_own_column_function,
    has_private_parts,
    is_a,
    is_fitted,
    is_of_skdp,
    is_pipeline,
    is_trusted,
    learns_nothing,
    learns_target,
    library_of,
    may_infer_categories,
    observed_columns,
    passes_columns,
    planned_guarantee,
)
from skdp.privacy.statement._texts import (
    INFERRED,
    LEARNED,
    NOT_FITTED,
    NOTES,
    ROWS,
    ROWS_IN_FIT,
    STATISTICS,
)

Names = frozenset[Any]

# Placeholders for columns without known names.
ALL_COLUMNS = "(all columns)"
OTHER_COLUMNS = "(other columns)"

_PROTECTIONS = {True: ROWS, "fit": ROWS_IN_FIT, False: STATISTICS}


class StatedStep(NamedTuple):
    """A step of a pipeline and its guarantee."""

    step: str
    guarantee: PrivacyGuarantee
    known: bool = True
    charged: bool = False
    fitted: bool = True

    def _content(self) -> dict[str, Any]:
        content = self._asdict()
        content["step"] = written_text(self.step)
        content["guarantee"] = self.guarantee._content()
        return content


class Fact(NamedTuple):
    """The protection of a column by a step."""

    column: Any
    # Empty for the pipeline as a whole.
    step: str
    protection: str
    # None if the step does not protect the column.
    guarantee: PrivacyGuarantee | None = None
    # Number of equal releases.
    n_releases: int = 1


@dataclass(frozen=True)
class Flow:
    """The table that one step passes to the next, as columns of X."""

    # Columns of X from which the table is computed.
    origins: Names
    # Columns of X that no step has protected.
    raw: Names
    # Columns in order while the table has columns of X as they are; otherwise None.
    columns: tuple[Any, ...] | None = None
    # Whether a step has replaced the target by a private target.
    has_new_target: bool = False

    @classmethod
    def start(cls, names: Sequence[Any]) -> Flow:
        """Return the flow of unprotected columns."""
        return cls(frozenset(names), frozenset(names), tuple(names))

    @property
    def is_unknown(self) -> bool:
        """Check if the table is X with columns that are not known."""
        return self.columns == (ALL_COLUMNS,)

    @property
    def names(self) -> tuple[Any, ...]:
        """Names of the columns; empty if they are not known."""
        return () if self.is_unknown else self.columns or ()

    def behind(self, raw: Names) -> Flow:
        """Return the output of a step that computes with all columns."""
        return replace(self, raw=raw, columns=None)

    def select(self, columns: Sequence[Any]) -> Flow:
        """Return the flow of some unprotected columns."""
        return replace(Flow.start(columns), has_new_target=self.has_new_target)

    def split(
        self, names: Sequence[Any], chosen: Collection[Any]
    ) -> tuple[Names, Names] | None:
        """Return the columns of X under chosen names and under other names; None if not known."""
        if names and all(name in chosen for name in names):
            return self.origins, frozenset()
        if self.columns is None or len(names) != len(self.columns):
            return None
        # A column of X may occur twice, under a chosen and under another name.
        pairs = list(zip(names, self.columns, strict=True))
        covered = frozenset(column for name, column in pairs if name in chosen)
        others = frozenset(column for name, column in pairs if name not in chosen)
        return covered, others


def _join_flows(flows: Sequence[Flow]) -> Flow:
    """Concatenate the columns of several tables."""
    # A table may repeat or omit columns of X, so their order is not followed.
    empty: Names = frozenset()
    return Flow(
        empty.union(*(flow.origins for flow in flows)),
        empty.union(*(flow.raw for flow in flows)),
        has_new_target=bool(flows) and all(flow.has_new_target for flow in flows),
    )


class Walk:
    """Collector of the facts about all steps."""

    def __init__(
        self, names: Iterable[Any], trusted: Sequence[type], *, is_plan: bool
    ) -> None:
        self.columns = list(names)
        self.facts: list[Fact] = []
        self.steps: list[StatedStep] = []
        # Columns of X that the last step returns unprotected.
        self.returned: set[Any] = set()
        self.notes: dict[str, list[str]] = {name: [] for name in NOTES}
        self.ledgers: dict[Any, PrivacyLedger] = {}
        # Columns of the steps that use a domain, by its guarantee and its release.
        self._domains: dict[tuple[PrivacyGuarantee, str], set[Any]] = {}
        self._targets: set[Any] = set()
        self._trusted = tuple(trusted)
        self._is_plan = is_plan

    def visit(self, estimator: Any, flow: Flow, path: str = "") -> Flow:
        """Follow a table through an estimator."""
        step = type(estimator).__name__
        if path:
            step = f"{path}: {step}"
        # Before fit, and without X, the first step of skdp names its columns.
        if flow.is_unknown and is_of_skdp(estimator):
            flow = self._select(flow, declared_names(estimator))
        guarantee = self._find_guarantee(estimator, step)
        # An estimator that reads reports has a guarantee for them if its user passes
        # reports: in this pipeline, no step has changed them.
        reads_reports = getattr(estimator, "reads_reports", False)
        if guarantee is not None and (not reads_reports or flow.raw == flow.origins):
            return self._visit_private(estimator, guarantee, flow, step)
        if is_pipeline(estimator):
            for name, part in estimator.steps:
                flow = self._visit_part(part, flow, path, name)
            return flow
        if is_a(estimator, "sklearn.pipeline.FeatureUnion"):
            flows = []
            for name, part in estimator.transformer_list:
                if not _is_dropped(part):
                    flows.append(self._visit_part(part, flow, path, name))
            return _join_flows(flows)
        has_columns = self._is_plan or hasattr(estimator, "transformers_")
        if has_columns and is_a(estimator, "sklearn.compose.ColumnTransformer"):
            return self._visit_columns(estimator, flow, path, step)
        # Other meta-estimators fit their parts several times, score them on true rows,
        # and may keep the table, so they are not followed.
        return self._visit_plain(estimator, flow, step)

    def _visit_part(self, part: Any, flow: Flow, path: str, name: str) -> Flow:
        if passes_columns(part):
            return flow
        return self.visit(part, flow, f"{path} / {name}" if path else str(name))

    def _visit_columns(self, estimator: Any, flow: Flow, path: str, step: str) -> Flow:
        """Follow a table through the parts of a column transformer."""
        is_fitted_transformer = hasattr(estimator, "transformers_")
        if has_own_column_function(estimator):
            protection = LEARNED if is_fitted_transformer else NOT_FITTED
            self._expose(flow.raw, protection, step)
        names = fitted_names(estimator) or flow.names
        transformers = list(getattr(estimator, "transformers_", estimator.transformers))
        remaining = dict.fromkeys(flow.names)
        flows = []
        for name, part, chosen in transformers:
            columns = _selected_columns(estimator, flow, names, (name, chosen))
            for column in columns or ():
                remaining.pop(column, None)
            if not _is_dropped(part) and columns != ():
                selected = self._select(flow, columns)
                flows.append(self._visit_part(part, selected, path, name))
        # A fitted transformer lists its remainder as a part.
        part = estimator.remainder
        if is_fitted_transformer or _is_dropped(part):
            return _join_flows(flows)
        columns = (OTHER_COLUMNS,) if flow.is_unknown else tuple(remaining)
        if columns:
            selected = self._select(flow, columns)
            flows.append(self._visit_part(part, selected, path, "remainder"))
        return _join_flows(flows)

    def _select(self, flow: Flow, columns: tuple[Any, ...] | None) -> Flow:
        """Return the flow of some columns, which are added to the statement; all if None."""
        if columns is None:
            return flow if flow.is_unknown else replace(flow, columns=None)
        self._add_columns(columns)
        return flow.select(columns)

    def _add_columns(self, names: Iterable[Any]) -> None:
        self.columns += [name for name in names if name not in self.columns]

    def _find_guarantee(self, estimator: Any, step: str) -> PrivacyGuarantee | None:
        """Return the guarantee of an estimator, or the planned one, if it is known."""
        if is_trusted(estimator, self._trusted):
            guarantee: PrivacyGuarantee = estimator.guarantee_
            return guarantee
        if not self._is_plan or not is_of_skdp(estimator):
            return None
        planned = planned_guarantee(estimator)
        if planned is None:
            self._note("unknown_plan", step)
        return planned

    def _visit_plain(self, estimator: Any, flow: Flow, step: str) -> Flow:
        """Follow a table through an estimator without a guarantee."""
        if learns_nothing(estimator):
            return flow.behind(flow.raw)
        # Behind steps that protect all columns, no true value can be learned.
        raw = flow.origins if has_earlier_fit(estimator) else flow.raw
        if has_private_parts(estimator) and not is_of_skdp(estimator):
            if self._is_plan:
                # The planned loss of the parts counts, also behind reports.
                raw = flow.origins
                self._note("unknown_plan", step)
            self._note("meta", step)
            self._add_ledgers(estimator)
        is_waiting = is_of_skdp(estimator) and not is_fitted(estimator)
        is_waiting = is_waiting or self._is_plan
        self._expose(raw, NOT_FITTED if is_waiting else LEARNED, step)
        if learns_target(estimator) and not flow.has_new_target:
            self._note("target", step)
        if not raw:
            self._note("after", step)
        if hasattr(estimator, "fit_resample"):
            return flow
        # Predictions contain no column.
        return flow.behind(flow.raw if hasattr(estimator, "transform") else frozenset())

    def _visit_private(
        self, estimator: Any, guarantee: PrivacyGuarantee, flow: Flow, step: str
    ) -> Flow:
        """Follow a table through an estimator with a guarantee."""
        names = fitted_names(estimator) or flow.names
        targets = _targets_in_scope(estimator, guarantee, flow, names)
        is_of_values = guarantee.relation == "replace_values"
        chosen = [name for name in guarantee.scope if name not in targets]
        if not chosen and not is_of_values:
            chosen = list(names)
        covered, uncovered = self._cover(flow, names, chosen, is_of_values=is_of_values)
        scope = [name for name in self.columns if name in covered]
        if covered == {ALL_COLUMNS}:
            scope = chosen or scope
        scope = list(dict.fromkeys([*scope, *targets]))
        if not scope and is_of_values:
            self._note("public_columns", step)
            return self._visit_plain(estimator, flow, step)
        self._add_columns(scope)
        self._targets.update(targets)

        protects = find_protection(estimator, guarantee)
        stated = StatedStep(
            step,
            replace(guarantee, scope=tuple(scope)),
            known=library_of(estimator) == "skdp",
            charged=self._add_ledgers(estimator),
            fitted=hasattr(estimator, "guarantee_"),
        )
        self._add_step(stated, _PROTECTIONS[protects], targets)
        self._expose_observed(estimator, flow, names, step)
        for domain in find_domains(estimator):
            self._domains.setdefault(domain, set()).update(scope)

        is_public_target = is_of_values and not targets and not flow.has_new_target
        if is_public_target and has_further_column(estimator):
            self._note("target", step)
        is_counted = bool(protects) and guarantee.relation == "add_remove"
        if is_counted and hasattr(estimator, "transform"):
            self._note("counted", step)
        if is_of_values or not hasattr(estimator, "transform"):
            # The other columns are public, or were read for predictions.
            self._expose(uncovered, LEARNED, step)
        # A resampler that was given a target returns a private one; before fit, it will.
        has_target = bool(targets) or not stated.fitted
        return _flow_behind(estimator, flow, uncovered, protects, has_target=has_target)

    def _cover(
        self,
        flow: Flow,
        names: Sequence[Any],
        chosen: Sequence[Any],
        *,
        is_of_values: bool,
    ) -> tuple[Names, Names]:
        """Return the columns of X that a guarantee covers, and the other unprotected columns."""
        if is_of_values:
            # Behind other steps, a change of a protected column may change public ones.
            split = flow.split(names, chosen) if flow.columns is not None else None
            covered, others = split or (frozenset(), flow.raw)
            return covered if chosen else frozenset(), others & flow.raw
        if not names:
            return flow.origins, frozenset()
        covered, others = flow.split(names, chosen) or (flow.origins, flow.origins)
        return covered, others & flow.raw

    def _add_step(
        self, stated: StatedStep, protection: str, targets: Collection[Any] = ()
    ) -> None:
        """Add a step with a guarantee, and a fact for each of its columns."""
        self.steps.append(stated)
        for name in stated.guarantee.scope:
            is_returned = name not in targets or protection == ROWS_IN_FIT
            own = protection if is_returned else STATISTICS
            self.facts.append(Fact(name, stated.step, own, stated.guarantee))
        self._note("statistics" if protection == STATISTICS else "rows", stated.step)
        if len(stated.guarantee.scope) > 1:
            self._note("joint", stated.step)
        if not stated.fitted:
            self._note("planned", stated.step)

    def _expose_observed(
        self, estimator: Any, flow: Flow, names: Sequence[Any], step: str
    ) -> None:
        """Expose the columns whose categories are inferred from the data."""
        if not hasattr(estimator, "guarantee_"):
            if may_infer_categories(estimator):
                self._expose(flow.raw, INFERRED, step)
            return
        for name in observed_columns(estimator):
            if name in self._targets:
                self._expose([name], INFERRED, step)
            else:
                columns, _ = flow.split(names, [name]) or (flow.origins, None)
                self._expose(columns & flow.raw, INFERRED, step)

    def _add_ledgers(self, estimator: Any) -> bool:
        """Add the ledgers that an estimator charges, and return whether it has some."""
        ledgers = find_ledgers(estimator)
        self.ledgers |= {ledger.path or id(ledger): ledger for ledger in ledgers}
        return bool(ledgers)

    def _expose(self, names: Iterable[Any], protection: str, step: str) -> None:
        """Add the fact that a step releases columns unprotected."""
        for name in self.columns:
            fact = Fact(name, step, protection)
            if name in names and fact not in self.facts:
                self.facts.append(fact)

    def _note(self, name: str, step: str) -> None:
        self.notes[name].append(step)

    def finish(self) -> None:
        """Expose targets that a step learns, and add the releases of domains."""
        for learner in self.notes["target"]:
            self._expose(self._targets, LEARNED, learner)
        for (guarantee, _), columns in self._domains.items():
            covered = columns.union(guarantee.scope)
            scope = tuple(name for name in self.columns if name in covered)
            self._add_step(
                StatedStep("domain", replace(guarantee, scope=scope)), STATISTICS
            )

    def exposed(self) -> set[Any]:
        """Return the columns with true values in the release."""
        open_facts = {fact.column for fact in self.facts if fact.guarantee is None}
        return open_facts | self.returned

    def reveals_records(self) -> bool:
        """Check if the release reveals which records are in the data, or how many."""
        relations = {step.guarantee.relation for step in self.steps}
        is_revealed = self.exposed() or self.notes["counted"] or self.notes["target"]
        return bool(is_revealed) or not relations <= {"add_remove"}


def _flow_behind(
    estimator: Any,
    flow: Flow,
    uncovered: Names,
    protects: Protects,
    *,
    has_target: bool,
) -> Flow:
    """Return the output of an estimator with a guarantee."""
    if hasattr(estimator, "transform"):
        return flow.behind(uncovered if protects else flow.raw)
    if not hasattr(estimator, "fit_resample"):
        return flow.behind(frozenset())  # predictions
    if protects and has_target:
        flow = replace(flow, has_new_target=True)
    return flow.behind(uncovered if protects else flow.raw)


def _is_dropped(part: Any) -> bool:
    return isinstance(part, str) and part == "drop"


def _selected_columns(
    estimator: Any, flow: Flow, names: Sequence[Any], item: tuple[str, Any]
) -> tuple[Any, ...] | None:
    """Return the columns of X that a part of a column transformer gets; None if not known."""
    name, chosen = item
    if isinstance(chosen, list | tuple) and not chosen:
        return ()
    listed = [chosen] if isinstance(chosen, str) else chosen
    is_listed = isinstance(listed, list | tuple)
    if flow.is_unknown:
        is_text = is_listed and all(isinstance(one, str) for one in listed)
        return tuple(listed) if is_text else None
    if flow.columns is None:
        return None
    # A fitted transformer has the positions, however its columns were selected.
    positions = getattr(estimator, "_transformer_to_input_indices", {}).get(name)
    if positions is None and is_listed:
        positions = [list(names).index(one) if one in names else one for one in listed]
    if positions is None:
        return None
    try:
        return tuple(
            flow.columns[position] for position in np.ravel(positions).tolist()
        )
    except (IndexError, TypeError):
        return None


def _targets_in_scope(
    estimator: Any, guarantee: PrivacyGuarantee, flow: Flow, names: Sequence[Any]
) -> list[Any]:
    """Return the names in a scope that are targets, and not columns of the table."""
    if not hasattr(estimator, "guarantee_"):
        # Before fit, the scope has names of parameters.
        protect = getattr(estimator, "protect", None)
        if isinstance(protect, str) and guarantee.scope:
            return list(guarantee.scope)
        if flow.columns is None:
            return []
    if not names and guarantee.relation != "replace_values":
        return []
    return [name for name in guarantee.scope if name not in names]
