"""Walk through a pipeline: what each step promises of which columns, and sees of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.ledger import PrivacyLedger
from skdp.privacy.statement._facts import (
    AS_IS,
    LEARNT_TARGET,
    NOT_FITTED,
    READ,
    StatedStep,
)
from skdp.privacy.statement._known import (
    EVERYTHING,
    Flow,
    Names,
    columns_read,
    declared_names,
    domain_releases,
    has_spending_parts,
    is_a,
    is_fitted,
    is_of_skdp,
    is_pipeline,
    learns_nothing,
    learns_target,
    ledgers_of,
    library_of,
    may_read_categories,
    names_in,
    parts_of,
    passes,
    planned_guarantee,
    selects_by_function,
    side_by_side,
    takes_weights,
    target_names,
    was_fitted_before,
    what_draws,
)
from skdp.privacy.statement._result import (
    amounts,
    conversion,
    listed,
    unit_in_words,
)

# Placeholder for columns that an unfitted column transformer does not name.
OTHERS = "(other columns)"

WEIGHTS = (
    "Weights (sample_weight), if fit was given any, are no column of X, and are learnt "
    "from as they are by: "
)

AFTER = "Post-processing of protected columns, which costs nothing: "

# The step that found a domain.
FOUND_DOMAIN = "domain"

UNKNOWN_PLAN = (
    "What all steps together are set to spend is not known before fit, because of: "
)

# Whether the rows that a step returns are protected: always, never, or only at fit.
Protects = Literal[True, False, "fit"]


@dataclass(frozen=True)
class Promise:
    """The guarantee of one step, for columns of the statement."""

    stated: StatedStep
    protects: Protects
    # The columns of it that are the target.
    target: tuple[Any, ...] = ()
    # Whether the step replaces the target by a protected one.
    has_new_target: bool = False

    @property
    def guarantee(self) -> PrivacyGuarantee:
        return self.stated.guarantee

    def protection_of(self, name: Any) -> Protects:
        """Return whether the rows of a column are protected."""
        if name in self.target and not self.has_new_target:
            return False
        return self.protects


class Walk:
    """Collector of what all steps promise and see."""

    def __init__(
        self, names: Iterable[Any], trusted: Sequence[type], *, is_plan: bool
    ) -> None:
        self.columns = list(names)
        self.promises: list[Promise] = []
        # Of a column, the steps that release it unprotected, by how they do.
        self.exposures: dict[Any, dict[str, list[str]]] = {}
        # The columns that leave the last step as they are.
        self.leaving: set[Any] = set()
        # The steps that reveal the number of rows, of which a person may have any number.
        self.revealing_rows: list[str] = []
        # Of a remark, the steps that it is about.
        self.remarks: dict[str, list[str]] = {}
        self.notes: list[str] = []
        self.ledgers: dict[Any, PrivacyLedger] = {}
        # The columns of the steps that were given a domain, by its guarantee. Clones of a
        # domain are one release.
        self._domains: dict[tuple[PrivacyGuarantee, str], set[Any]] = {}
        self._trusted = tuple(trusted)
        self._is_plan = is_plan
        # What learns the true target may so learn the column of its name.
        self._targets: set[Any] = set()

    def visit(self, estimator: Any, flow: Flow, path: str = "") -> Flow:
        """Follow a table through an estimator."""
        step = type(estimator).__name__
        if path:
            step = f"{path}: {step}"
        # Before `fit`, and without X, the first step of ours names its columns.
        if flow.is_unknown and is_of_skdp(estimator):
            flow = self._only(flow, declared_names(estimator))
        guarantee = self._guarantee_of(estimator, step)
        if guarantee is not None:
            # What reads reports learns nothing but those of steps before. A table that
            # no step has changed is one of reports, as its user says.
            reads_reports = getattr(estimator, "reads_reports", False)
            if not reads_reports or flow.raw == flow.origins:
                return self._private(estimator, guarantee, flow, step)
            return self._plain(estimator, flow, step)
        # Only these are followed. What others make of their parts is not known: they fit
        # them several times, score them on true rows, and may keep the table.
        if is_pipeline(estimator):
            for name, part in estimator.steps:
                flow = self._visit_part(part, flow, path, name)
            return flow
        if is_a(estimator, "sklearn.pipeline.FeatureUnion"):
            flows = []
            for name, part in estimator.transformer_list:
                if not _is_dropped(part):
                    flows.append(self._visit_part(part, flow, path, name))
            return side_by_side(flows)
        has_columns = self._is_plan or hasattr(estimator, "transformers_")
        if has_columns and is_a(estimator, "sklearn.compose.ColumnTransformer"):
            return self._by_columns(estimator, flow, path, step)
        return self._plain(estimator, flow, step)

    def _visit_part(self, part: Any, flow: Flow, path: str, name: str) -> Flow:
        if passes(part):
            return flow
        return self.visit(part, flow, f"{path} / {name}" if path else str(name))

    def _only(self, flow: Flow, columns: tuple[Any, ...] | None) -> Flow:
        """Return the flow of some columns of the statement, of all if not known."""
        if columns is None:
            return replace(flow, columns=flow.columns if flow.is_unknown else None)
        self.add_columns(columns)
        return flow.only(columns)

    def add_columns(self, names: Iterable[Any]) -> None:
        """Add columns to the statement."""
        self.columns += [name for name in names if name not in self.columns]

    def _by_columns(self, estimator: Any, flow: Flow, path: str, step: str) -> Flow:
        """Follow a table through a column transformer."""
        has_fitted = hasattr(estimator, "transformers_")
        if selects_by_function(estimator):
            protection = AS_IS if has_fitted else NOT_FITTED
            self.expose(flow.raw, protection, step)
        names = names_in(estimator)
        flows = []
        remaining = list(flow.names)
        transformers = getattr(estimator, "transformers_", estimator.transformers)
        for name, part, chosen in transformers:
            columns = flow.selected(chosen, names)
            for column in columns or ():
                if column in remaining:
                    remaining.remove(column)
            if not _is_dropped(part) and columns != ():
                selected = self._only(flow, columns)
                flows.append(self._visit_part(part, selected, path, name))
        # A fitted one lists its remainder among the others.
        has_remainder = remaining or not flow.names
        if not has_fitted and has_remainder and not _is_dropped(estimator.remainder):
            columns = (OTHERS,) if flow.is_unknown else tuple(remaining) or None
            selected = self._only(flow, columns)
            part = estimator.remainder
            flows.append(self._visit_part(part, selected, path, "remainder"))
        return side_by_side(flows)

    def _guarantee_of(self, estimator: Any, step: str) -> PrivacyGuarantee | None:
        """Return what is promised, or set to be spent, if that is known."""
        if self._is_believed(estimator):
            guarantee: PrivacyGuarantee = estimator.guarantee_
            return guarantee
        if not self._is_plan or not is_of_skdp(estimator):
            return None
        planned = planned_guarantee(estimator)
        if planned is None:
            self._remark(UNKNOWN_PLAN, step)
            self.notes.append(
                f"What {step} is set to spend follows from its parameters and the "
                "columns that fit sees."
            )
        return planned

    def _is_believed(self, estimator: Any) -> bool:
        """Whether an estimator has a guarantee of a class that is known or trusted."""
        if not isinstance(getattr(estimator, "guarantee_", None), PrivacyGuarantee):
            return False
        if type(estimator) in self._trusted:
            return True
        # A local transformer releases rows by its protocol, a wrapper by its parts.
        sources = [estimator]
        if hasattr(estimator, "protocol_"):
            sources += what_draws(estimator.protocol_)
        if {library_of(source) for source in sources} != {"skdp"}:
            return False
        return all(map(self._is_believed, parts_of(estimator)))

    def _plain(self, estimator: Any, flow: Flow, step: str) -> Flow:
        """Follow a table through an estimator that promises nothing."""
        if learns_nothing(estimator):
            return flow.behind(flow.raw)
        # Behind a step that protects all columns, there is nothing to expose: what is
        # learnt from its output is post-processing.
        raw = flow.raw
        if was_fitted_before(estimator):
            # On a table that is not known, perhaps on the true rows.
            raw = flow.origins
        if has_spending_parts(estimator) and not is_of_skdp(estimator):
            if self._is_plan:
                # What they are set to spend counts, also behind reports.
                raw = flow.origins
                self._remark(UNKNOWN_PLAN, step)
            self.notes.append(
                f"What {step} makes of its parts is not followed: each fit is a "
                "release, and how much all of them lose is not known here. A ledger "
                "counts it, if no fit gets a record several times, as from a bag, and "
                "no private target as a column, as in a chain."
            )
            self._add_ledgers(estimator)
        # What is partly fitted has released something, and what is not fitted will.
        is_waiting = is_of_skdp(estimator) and not is_fitted(estimator)
        self.expose(raw, NOT_FITTED if self._is_plan or is_waiting else AS_IS, step)
        if learns_target(estimator) and not flow.has_new_target:
            self._remark(LEARNT_TARGET, step)
        if takes_weights(estimator):
            self._remark(WEIGHTS, step)
        if not raw:
            self._remark(AFTER, step)
        if hasattr(estimator, "fit_resample"):
            return replace(flow, is_curated=flow.is_curated or bool(raw))
        if not hasattr(estimator, "transform"):
            # Predictions contain no column.
            return flow.behind(frozenset())
        return flow.behind(flow.raw, is_curated=bool(raw))

    def _private(
        self, estimator: Any, guarantee: PrivacyGuarantee, flow: Flow, step: str
    ) -> Flow:
        """Follow a table through an estimator that promises something."""
        # By the scope as it was fitted: a guarantee of released rows has another scope.
        targets = target_names(estimator, guarantee, flow)
        protects = _protects(estimator, guarantee)
        promised = self._promised(estimator, guarantee, flow, targets, step)
        if promised is None:
            return self._plain(estimator, flow, step)
        covered, uncovered = self._covered(estimator, promised, flow, targets, step)
        promised = self._of_curator(promised, flow, covered, step)
        scope = self._scope_of(promised, covered, targets)
        if promised.relation == "replace_values" and not scope:
            self.notes.append(
                f"It is not known of which columns of X that is made which {step} "
                "protects, as it is behind other steps, or of an array: nothing is "
                "promised of them. Let it be the first step, and X a dataframe."
            )
            return self._plain(estimator, flow, step)
        self._note_targets(targets, flow, step)
        self._expose_read(estimator, flow, targets, step)
        for found in domain_releases(estimator):
            self._domains.setdefault(found, set()).update(scope)
        stated = self._stated(estimator, replace(promised, scope=scope), step)
        has_rows = hasattr(estimator, "transform")
        flow = self._add_promise(stated, protects, targets, flow, has_rows=has_rows)
        if has_rows or hasattr(estimator, "fit_resample"):
            # What stays raw behind it: statistics alone leave the rows as they are.
            return flow.behind(uncovered if protects else flow.raw)
        # An estimator without rows passes predictions on, but has seen the columns that
        # its promise leaves out.
        self.expose(uncovered, AS_IS, step)
        return flow.behind(frozenset())

    def _promised(
        self,
        estimator: Any,
        guarantee: PrivacyGuarantee,
        flow: Flow,
        targets: Mapping[Any, Any],
        step: str,
    ) -> PrivacyGuarantee | None:
        """Return what holds of all that an estimator releases; None if nothing does."""
        if guarantee.relation == "replace_values":
            if self._note_public_target(estimator, targets, step):
                return None
            is_public = not targets and not flow.has_new_target
            if is_public and learns_target(estimator):
                self._remark(LEARNT_TARGET, step)
        # Rows show how many records there are, also if `fit_transform` alone returns
        # them: a guarantee for adding or removing one becomes one for replacing it.
        if _protects(estimator, guarantee) and hasattr(estimator, "transform"):
            return self._of_released_rows(estimator, guarantee, step)
        return guarantee

    def _covered(
        self,
        estimator: Any,
        guarantee: PrivacyGuarantee,
        flow: Flow,
        targets: Mapping[Any, Any],
        step: str,
    ) -> tuple[Names, Names]:
        """Return the columns that a guarantee covers, and the raw ones that it does not."""
        if guarantee.relation != "replace_values":
            return flow.covered_by(guarantee.scope, names_in(estimator))
        covered, uncovered = _protected_by(estimator, guarantee, flow, targets)
        # It may read all others exactly, also for statistics alone.
        self.expose(uncovered, AS_IS, step)
        return covered, uncovered

    def _note_targets(self, targets: Mapping[Any, Any], flow: Flow, step: str) -> None:
        """Note how the statement names targets, if a column has the name of one."""
        self._targets.update(targets, targets.values())
        if targets and "target" in flow.origins:
            self.notes.append(
                f"{listed(list(map(str, targets.values())))} is the target that fit of "
                f"{step} gets beside X, which has another column, target."
            )

    def _note_public_target(
        self, estimator: Any, targets: Mapping[Any, Any], step: str
    ) -> bool:
        """Note a private target that has the name of a public column, and return whether it has."""
        is_of_target = isinstance(getattr(estimator, "protect", None), str)
        if not is_of_target or not hasattr(estimator, "guarantee_"):
            return False
        # A target is stated by another name if X has a column of its own. A y without a
        # name is called "target", whatever columns X has.
        public = []
        for name, stated_name in targets.items():
            if name not in (stated_name, "target"):
                public.append(name)
        if not public:
            return False
        self.notes.append(
            f"{step} protects a y of the name of a column of X, {public[0]}, which is "
            "released as is: so nothing is promised of y. If it is about something "
            "else, name it otherwise."
        )
        return True

    def _scope_of(
        self,
        guarantee: PrivacyGuarantee,
        covered: Names,
        targets: Mapping[Any, Any],
    ) -> tuple[Any, ...]:
        """Return the columns of the statement that a guarantee covers, with targets."""
        columns = [name for name in self.columns if name in covered]
        if covered == {EVERYTHING} and guarantee.scope:
            columns = list(guarantee.scope)
        scope = tuple(dict.fromkeys([*columns, *targets.values()]))
        self.add_columns(scope)
        return scope

    def _add_promise(
        self,
        stated: StatedStep,
        protects: Protects,
        targets: Mapping[Any, Any],
        flow: Flow,
        *,
        has_rows: bool,
    ) -> Flow:
        """Record a promise; a resampler that keeps it returns a target of its own."""
        # A resampler that is not fitted yet is going to return a target if it gets one.
        has_target = bool(targets) or not stated.fitted
        returns_target = has_target and bool(protects) and not has_rows
        promise = Promise(stated, protects, tuple(targets.values()), returns_target)
        self.promises.append(promise)
        return replace(flow, has_new_target=True) if returns_target else flow

    def _of_curator(
        self, guarantee: PrivacyGuarantee, flow: Flow, covered: Names, step: str
    ) -> PrivacyGuarantee:
        """Return the guarantee of a step, also behind one that learns from true values."""
        if not flow.is_curated or covered.isdisjoint(flow.raw):
            return guarantee
        if guarantee.trust == "central":
            return guarantee
        self.notes.append(
            f"{step} comes after a step that learns from true values: somebody has to "
            "be trusted with them, so this is the central model."
        )
        return replace(guarantee, trust="central")

    def _stated(
        self, estimator: Any, guarantee: PrivacyGuarantee, step: str
    ) -> StatedStep:
        """State a step, and add its ledgers to the statement."""
        charged = self._add_ledgers(estimator)
        return StatedStep(
            step,
            guarantee,
            known=library_of(estimator) == "skdp",
            charged=charged,
            fitted=hasattr(estimator, "guarantee_"),  # a plan is not
        )

    def _of_released_rows(
        self, estimator: Any, guarantee: PrivacyGuarantee, step: str
    ) -> PrivacyGuarantee | None:
        """Return the promise about released rows, which show how many there are."""
        # The number of rows reveals whether a record was added, so that only a guarantee
        # for replacing a record holds for everything that the step releases.
        if guarantee.relation == "replace_values":
            return guarantee
        names = _protected_names(estimator)
        if guarantee.relation == "replace" and not names:
            return guarantee
        # Another person may have another number of rows.
        if guarantee.relation == "add_remove" and guarantee.unit != "record":
            self.revealing_rows.append(step)
            self.notes.append(
                f"If transform of {step} is used, it returns as many rows as it is "
                "given, which reveals how many there are. Persons may have different "
                "numbers of rows, so nothing holds for replacing all rows of a person. "
                f"If only fit and sample are used, its guarantee_ holds: {guarantee}."
            )
            return replace(guarantee, scope=names or guarantee.scope)
        try:
            converted = guarantee.to("replace")
        # Twice a large delta promises nothing.
        except ValueError:
            self.notes.append(
                f"{step} shows how many rows there are, and no promise for replacing "
                f"{unit_in_words(guarantee)} follows from {amounts(guarantee)} for "
                "adding or removing one: so nothing is promised."
            )
            return None
        if names:
            self.notes.append(
                f"{step} leaves other columns of each row as they are. These show who "
                "is there, so the promise about the columns that it protects is for "
                f"replacing their values: {conversion(guarantee)}."
            )
            return replace(converted, scope=names)
        self.notes.append(
            f"If transform of {step} is used, it returns as many rows as it is given, "
            "which reveals how many there are: so the guarantee stated here is for "
            f"replacing {unit_in_words(guarantee)}: {conversion(guarantee)}. If only "
            f"fit and sample are used, its guarantee_ holds: {guarantee}."
        )
        return converted

    def _expose_read(
        self, estimator: Any, flow: Flow, targets: dict[Any, Any], step: str
    ) -> None:
        """Expose the columns whose categories are read from the data."""
        if not hasattr(estimator, "guarantee_"):
            if may_read_categories(estimator):
                self.expose(flow.raw, READ, step)
            return
        names = names_in(estimator) or flow.names
        for name in columns_read(estimator):
            if name in targets:
                self.expose([targets[name]], READ, step)
            else:
                columns, _ = flow.split(names, [name])
                self.expose(columns & flow.raw, READ, step)

    def _add_ledgers(self, estimator: Any) -> bool:
        """Add the ledgers that an estimator charges, and return whether there are some."""
        ledgers = ledgers_of(estimator)
        for ledger in ledgers:
            self.ledgers[ledger.path or id(ledger)] = ledger
        return bool(ledgers)

    def expose(self, names: Iterable[Any], protection: str, step: str) -> None:
        """Record that a step releases columns unprotected."""
        for name in names:
            steps = self.exposures.setdefault(name, {}).setdefault(protection, [])
            if step not in steps:
                steps.append(step)

    def _remark(self, text: str, step: str) -> None:
        self.remarks.setdefault(text, []).append(step)

    def finish(self) -> None:
        """Void guarantees of a target that a step learns, and add the found domains."""
        for learner in self.remarks.get(LEARNT_TARGET, ()):
            self.expose(self._targets, AS_IS, learner)
        for (found, _), columns in self._domains.items():
            columns.update(found.scope)
            scope = tuple(name for name in self.columns if name in columns)
            step = StatedStep(FOUND_DOMAIN, replace(found, scope=scope))
            self.promises.append(Promise(step, protects=False))

    def shows_records(self) -> bool:
        """Whether it shows which records there are, or how many."""
        # Then a guarantee for adding or removing one says less than what is seen.
        is_revealed = self.exposures or self.leaving or self.revealing_rows
        if is_revealed or LEARNT_TARGET in self.remarks:
            return True
        relations = {promise.guarantee.relation for promise in self.promises}
        return not relations <= {"add_remove"}


def _is_dropped(part: Any) -> bool:
    return isinstance(part, str) and part == "drop"


def _protected_names(estimator: Any) -> tuple[Any, ...]:
    """Return the columns that are protected in released rows, if not all are."""
    protects = getattr(estimator, "protects_rows", None)
    return tuple(protects) if isinstance(protects, list | tuple) else ()


def _protects(estimator: Any, guarantee: PrivacyGuarantee) -> Protects:
    """Return whether the rows that an estimator returns are protected."""
    protects = getattr(estimator, "protects_rows", None)
    returns_new_rows = hasattr(estimator, "fit_resample")
    if protects is None and returns_new_rows and not hasattr(estimator, "transform"):
        protects = "fit"
    if protects is None:
        return guarantee.trust != "central"
    if isinstance(protects, str) and protects == "fit":
        # Where `fit` is followed by `transform`, the next step gets true rows.
        is_at_fit = returns_new_rows or hasattr(estimator, "fit_transform")
        return "fit" if is_at_fit else False
    return bool(protects)


def _protected_by(
    estimator: Any, guarantee: PrivacyGuarantee, flow: Flow, targets: Mapping[Any, Any]
) -> tuple[Names, Names]:
    """Return the columns whose values alone are protected, and the raw ones that are not."""
    columns = [name for name in guarantee.scope if name not in targets]
    names = names_in(estimator) or flow.names
    # Behind other steps it is not known which columns of X a protected one is made of,
    # and a change of these may change public ones.
    is_as_it_is = flow.columns is not None and len(names) == len(flow.columns)
    if not columns or not is_as_it_is:
        return frozenset(), flow.raw
    covered, uncovered = flow.split(names, columns)
    return covered, uncovered & flow.raw
