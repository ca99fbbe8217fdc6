"""Traversal of a pipeline that collects which columns each step protects or releases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from skdp.privacy._libraries import find_library, is_a
from skdp.privacy.guarantees._guarantee import PrivacyGuarantee
from skdp.privacy.statement import _steps

# Protection of a column by a step.
ROWS = "privatized rows"
ROWS_IN_FIT = "privatized rows in fit, unprotected in transform and predict"
SYNTHETIC = "synthetic rows"
STATISTICS = "private statistics of this step"
LEARNED = "unprotected: true values are learned"
RETURNED = "unprotected: true values are in the output"
PERMANENT = "Reports are permanent"
TRANSFORMED = "unprotected in transform: true values are in its output"
INFERRED = "unprotected: categories are inferred from the data"
NOT_FITTED = "no guarantee yet: the step is not fitted"
NOT_SEEN = "no guarantee: not seen by fit"
NOT_RELEASED = "not released"
CHARGED = "as charged"

# Reasons why a total is for replacing a record, and not for adding or removing one.
REVEALED = (
    "Another part of the pipeline reveals which records are in the data, or how many"
)
COUNTED = "transform returns as many rows as its input, which reveals their number"

# Notes about steps, in the order of a statement.
NOTES = {
    "counted": (
        "If only fit and sample are used, without the rest of the pipeline, the guarantee "
        "for adding or removing in the table remains valid: {steps}. It does not hold for "
        f"the pipeline, because {COUNTED}."
    ),
    "sampled": (
        "The guarantee is for fit and sample: {steps}. Use transform as a step of a "
        f"pipeline and state the guarantee of the pipeline, because {COUNTED}."
    ),
    "transformed": (
        "The rows that transform returns have true values, so give away the fitted "
        "statistics only: {steps}."
    ),
    "inferred": (
        "Categories were inferred from the data, which reveals the observed values: "
        "{steps}."
    ),
    "seeded": "NOT SECURE, because the random bits come from a seed: {steps}.",
    "planned": (
        "Not fitted yet, so nothing was released: {steps}. The numbers are the largest "
        "that the parameters allow. A step may use no budget, for example if bounds or "
        "categories are declared."
    ),
    "foreign": "Guarantees of other authors, for classes that are not from skdp: {steps}.",
    "unknown_plan": (
        "The loss depends on the columns and rows that fit sees, so it is not known "
        "before: {steps}."
    ),
    "statistics": (
        "The guarantee is for the numbers that fit learns, not for rows: {steps}."
    ),
    "permanent": (
        f"{PERMANENT}: the guarantee is for one value of each column of a person. "
        "Each further value of the person costs the same again, and the fact and the time "
        "of a change are not protected: {steps}."
    ),
    "reports": (
        "Randomizing the same people again costs the same again, unless the same "
        "reports are reused (memoize=True): {steps}."
    ),
    "answers": (
        "People randomized their answers as the design describes, which skdp cannot "
        "verify. Each further answer of a person costs the same again: {steps}."
    ),
    "synthetic": (
        "You may sample any number of rows. Fitting again on the data costs the same "
        "again: {steps}."
    ),
    "rows": (
        "Each further fit that reads the data, and each further call that privatizes "
        "rows, costs the same again: {steps}."
    ),
    "after": (
        "Post-processing of protected columns, without further loss for them: {steps}."
    ),
    "target": "The target is unprotected, because true values are learned by: {steps}.",
    "not_followed": (
        "The parts of these steps are not stated, because the steps may fit them several "
        "times, or choose columns and transformers by true values: {steps}. Use Pipeline, "
        "ColumnTransformer or FeatureUnion, or state each fitted part."
    ),
    "public_columns": (
        "It is not known from which columns of X the protected columns are computed, so "
        "they have no guarantee: {steps}. Use it as the first step, with a DataFrame."
    ),
}

# A set of column names.
Names = frozenset[Any]
NO_COLUMNS: Names = frozenset()

# Names, estimators and tables of the parts of a transformer.
Parts = Iterator[tuple[str, Any, "Flow"]]

# Placeholders for columns without known names.
ALL_COLUMNS = "(all columns)"
OTHER_COLUMNS = "(other columns)"


class StatedStep(NamedTuple):
    """A step of a pipeline and its guarantee, which is a plan if the step is not fitted."""

    step: str
    guarantee: PrivacyGuarantee
    fitted: bool = True


class Fact(NamedTuple):
    """The protection of a column by a step."""

    column: Any
    # Empty for the pipeline as a whole.
    step: str
    protection: str
    # None if the step does not protect the column.
    guarantee: PrivacyGuarantee | None = None


class Flow:
    """The table that one step passes to the next, described by columns of X.

    Parameters
    ----------
    origins : frozenset
        Columns of X from which the table is computed.
    raw : frozenset
        Columns of X that no step has protected.
    columns : tuple, default=None
        The columns of the table, in order, if all of them are unchanged columns of X.
    has_new_target : bool, default=False
        True if a resampler has replaced the target by a private target.
    """

    def __init__(
        self,
        origins: Names,
        raw: Names,
        columns: tuple[Any, ...] | None = None,
        *,
        has_new_target: bool = False,
    ) -> None:
        self.origins = origins
        self.raw = raw
        self.columns = columns
        self.has_new_target = has_new_target

    @classmethod
    def start(cls, names: Sequence[Any], *, has_new_target: bool = False) -> Flow:
        """Return the flow of a table of unprotected columns of X."""
        columns = frozenset(names)
        return cls(columns, columns, tuple(names), has_new_target=has_new_target)

    @property
    def is_unknown(self) -> bool:
        """True if the table is X and its column names are not known."""
        return self.columns == (ALL_COLUMNS,)

    @property
    def names(self) -> tuple[Any, ...]:
        """Names of the columns; empty if they are not known."""
        return () if self.is_unknown else self.columns or ()

    def after(self, raw: Names, *, has_new_target: bool = False) -> Flow:
        """Return the flow after a step whose output columns may depend on all of its input columns."""
        has_new_target |= self.has_new_target
        return Flow(self.origins, raw, has_new_target=has_new_target)

    def split(
        self, names: Sequence[Any], selected: Collection[Any]
    ) -> tuple[Names, Names] | None:
        """Return the columns of X in the table under selected names, and under other names.

        `names` are the names of the columns in the table, and X is the input of the
        whole pipeline. None if it is not known which columns of X they are.
        """
        if set(names) <= set(selected):
            return self.origins, frozenset()
        if self.columns is None or len(names) != len(self.columns):
            return None
        # A column of X may occur twice, under a selected and under another name.
        pairs = list(zip(names, self.columns, strict=True))
        inside = frozenset(column for name, column in pairs if name in selected)
        return inside, frozenset(x for name, x in pairs if name not in selected)


class PrivateStep:
    """A step with a guarantee: the columns that it protects, and the table that it gets.

    A column of X is raw if no earlier step has protected it. The scope of the guarantee
    names columns of the table, and other names in it are targets. Covered columns of X
    are protected by the guarantee, and uncovered columns are raw columns beside them.
    """

    def __init__(
        self,
        estimator: object,
        guarantee: PrivacyGuarantee,
        flow: Flow,
        columns: Iterable[Any],
        *,
        is_alone: bool,
    ) -> None:
        # `columns` are the columns of X so far, and with `is_alone`, the estimator is no
        # step of a pipeline, so that its rows, statistics and samples are given away.
        names = _steps.find_feature_names(estimator) or flow.names
        self.estimator = estimator
        self.flow = flow
        self.targets = _find_targets(estimator, guarantee, flow, names)
        covered, self.uncovered = _cover(guarantee, flow, names, self.targets)
        scope = [name for name in columns if name in covered]
        if covered == {ALL_COLUMNS}:
            # The columns of X have no known names, so the names of the guarantee are used.
            named = guarantee.scope + guarantee.observed
            scope = [x for x in named if x not in self.targets] or scope
        self.scope = tuple(dict.fromkeys([*scope, *self.targets]))
        self.guarantee = guarantee
        self.is_alone = is_alone
        # The protected rows of the output: True, "fit" or False.
        self.protects_rows = _steps.find_protection(estimator, guarantee)
        self.protects_values = guarantee.relation == "replace_values"
        self.returns_rows = hasattr(estimator, "transform")
        self.is_resampler = hasattr(estimator, "fit_resample")
        # The rows of an estimator alone have true values, or the columns that it does not
        # protect.
        gives_rows = is_alone and self.returns_rows
        self.gives_true_rows = gives_rows and not self.protects_rows

    @property
    def protection(self) -> str:
        """The protection of the columns in the scope."""
        if not self.protects_rows:
            return STATISTICS
        if self.protects_rows == "fit":
            return ROWS_IN_FIT
        is_synthetic = _find_reuse(self.estimator, self.guarantee) == "synthetic"
        return SYNTHETIC if is_synthetic else ROWS

    def list_notes(self) -> Iterator[str]:
        """Yield the names of the notes about the step."""
        if self.protects_rows:
            yield _find_reuse(self.estimator, self.guarantee)
            # The number of rows of the output is not protected, which matters if it is used.
            if self.guarantee.relation == "add_remove" and self.returns_rows:
                has_samples = self.is_alone and hasattr(self.estimator, "sample")
                yield "sampled" if has_samples else "counted"
        if self.gives_true_rows:
            yield "transformed"
        if _steps.find_inferred(self.estimator):
            yield "inferred"
        if find_library(self.estimator) != "skdp":
            yield "foreign"
        # A resampler uses the true target as a public column.
        is_public = not (self.targets or self.flow.has_new_target)
        if self.protects_values and self.is_resampler and is_public:
            yield "target"

    def list_exposures(self) -> Iterator[tuple[str, Names]]:
        """Yield the columns that the step releases unprotected, after how it does so."""
        is_rest = self.protects_values and self.protects_rows is True
        if self.is_alone and self.returns_rows and is_rest:
            yield RETURNED, self.uncovered
        elif self.protects_values or not self.returns_rows:
            # Predictions or later steps depend on the columns that it does not protect.
            yield LEARNED, self.uncovered
        if self.gives_true_rows:
            yield TRANSFORMED, self.flow.raw

    def find_output(self) -> Flow:
        """Return the table that the step passes on: its raw columns are neither protected here nor before."""
        if self.gives_true_rows or not (self.returns_rows or self.is_resampler):
            return self.flow.after(NO_COLUMNS)  # nothing, or predictions
        if not self.protects_rows:
            return self.flow.after(self.flow.raw)
        # A resampler of a protected target returns a private target; assumed before fit.
        has_target = bool(self.targets) or not hasattr(self.estimator, "guarantee_")
        return self.flow.after(
            self.uncovered, has_new_target=has_target and not self.returns_rows
        )


class Walk:
    """Traversal of the steps of estimators, which collects facts, guarantees and notes.

    Parameters
    ----------
    names : iterable
        Columns of X.
    trusted : sequence of type
        See `privacy_statement`.
    is_plan : bool
        True if no step is fitted.
    """

    def __init__(
        self, names: Iterable[Any], trusted: Sequence[type], *, is_plan: bool
    ) -> None:
        # `names` are the columns of X, `trusted` are further classes whose guarantees
        # are accepted, and with `is_plan` unfitted estimators are visited. `facts`,
        # `steps` and `notes` are the results; `notes` has the names of the steps to
        # which each note applies.
        self.columns = list(dict.fromkeys(names))
        # Dicts instead of sets, to keep the order.
        self.facts: dict[Fact, None] = {}
        self.steps: list[StatedStep] = []
        self.notes: dict[str, dict[str, None]] = {name: {} for name in NOTES}
        # Columns of X that the last step returns unprotected.
        self._returned = NO_COLUMNS
        # By release of a discovered domain: its columns, and the columns that use it.
        self._domains: dict[Any, set[Any]] = {}
        self._targets: set[Any] = set()
        self._trusted = tuple(trusted)
        self._is_plan = is_plan

    @property
    def value_scopes(self) -> list[set[Any]]:
        """The scopes of the steps that protect the values of named columns only."""
        return [
            set(step.guarantee.scope)
            for step in self.steps
            if step.guarantee.relation == "replace_values"
        ]

    def visit_alone(self, estimator: Any, names: Sequence[Any], path: str) -> None:
        """Collect facts about an estimator that gets columns of X, and is no step of another one."""
        output = self.visit(estimator, Flow.start(names), path, is_alone=True)
        last = estimator
        while is_a(last, "Pipeline"):
            last = last.steps[-1][1]
        # The output of a transformer contains rows, and predictions do not.
        if hasattr(last, "guarantee_") or not hasattr(last, "predict"):
            self._returned |= output.raw

    def visit(
        self, estimator: Any, flow: Flow, path: str = "", *, is_alone: bool = False
    ) -> Flow:
        """Collect facts about an estimator that gets a table, and return the table that it passes on.

        `flow` describes the columns of the table, and `path` is the names of the steps
        that lead to the estimator. An estimator alone gives away its fitted attributes
        and its samples; the rows of its `transform` count only as a step.
        """
        step = type(estimator).__name__
        if path:
            step = f"{path}: {step}"
        guarantee = self._find_guarantee(estimator, step)
        if guarantee is not None:
            private = PrivateStep(
                estimator, guarantee, flow, self.columns, is_alone=is_alone
            )
            return self._visit_private(private, step)
        if is_a(estimator, "Pipeline"):
            for name, part in estimator.steps:
                flow = self._visit_part(part, flow, path, name)
            return flow
        if is_a(estimator, "FeatureUnion"):
            parts = ((*part, flow) for part in estimator.transformer_list)
            return self._visit_parts(parts, path)
        # In a plan, the columns are in the parameters. Otherwise they are known after fit,
        # and an unfitted column transformer is a step without a guarantee.
        is_known = self._is_plan or hasattr(estimator, "transformers_")
        if is_a(estimator, "ColumnTransformer") and is_known:
            return self._visit_parts(self._iterate_columns(estimator, flow, step), path)
        # Other meta-estimators fit their parts several times, score them on true rows,
        # and may keep the table, so they are not followed.
        return self._visit_plain(estimator, flow, step)

    def _visit_part(self, part: object, flow: Flow, path: str, name: str) -> Flow:
        """Visit the step `name` of a pipeline, union or column transformer."""
        if _steps.passes_columns(part):
            return flow
        return self.visit(part, flow, f"{path} / {name}" if path else str(name))

    def _visit_parts(self, parts: Iterable[tuple[str, Any, Flow]], path: str) -> Flow:
        """Visit parts, given by name with the tables they get, and return the table of their concatenated outputs.

        A flow describes a table by the columns of X from which it is computed, and its
        raw columns are not protected.
        """
        flows = [
            self._visit_part(part, table, path, name)
            for name, part, table in parts
            if not (isinstance(part, str) and part == "drop") and table.columns != ()
        ]
        # The output may repeat or omit columns of X, so `columns` is None.
        return Flow(
            NO_COLUMNS.union(*(flow.origins for flow in flows)),
            NO_COLUMNS.union(*(flow.raw for flow in flows)),
            has_new_target=bool(flows) and all(flow.has_new_target for flow in flows),
        )

    def _iterate_columns(self, estimator: Any, flow: Flow, step: str) -> Parts:
        """Yield the name, the estimator and the input of each part of a column transformer, with its remainder."""
        is_fitted = hasattr(estimator, "transformers_")
        if _steps.has_own_column_function(estimator):
            self._expose(flow.raw, LEARNED if is_fitted else NOT_FITTED, step)
        named: set[Any] = set()
        parts = estimator.transformers_ if is_fitted else estimator.transformers
        for name, part, selected in parts:
            columns = _select_columns(estimator, flow, name, selected)
            named.update(columns or ())
            yield name, part, self._select(flow, columns)
        # A fitted transformer lists its remainder as a part.
        if not is_fitted and estimator.remainder != "drop":
            remainder = [name for name in flow.names if name not in named]
            columns = (OTHER_COLUMNS,) if flow.is_unknown else tuple(remainder)
            yield "remainder", estimator.remainder, self._select(flow, columns)

    def _select(self, flow: Flow, columns: tuple[Any, ...] | None) -> Flow:
        """Return the flow of some columns of X, which the statement lists; None selects all columns."""
        if columns is None:
            return flow if flow.is_unknown else flow.after(flow.raw)
        self._add_columns(columns)
        return Flow.start(columns, has_new_target=flow.has_new_target)

    def _add_columns(self, names: Iterable[Any]) -> None:
        """Add columns to the statement."""
        self.columns += [name for name in names if name not in self.columns]

    def _find_guarantee(self, estimator: Any, step: str) -> PrivacyGuarantee | None:
        """Return the guarantee of an estimator, or in a plan its planned guarantee; None if there is none."""
        if _steps.is_trusted(estimator, self._trusted):
            return estimator.guarantee_
        if not self._is_plan or _steps.libraries_of(estimator) != {"skdp"}:
            return None
        planned = _steps.planned_guarantee(estimator)
        if planned is None:
            self.notes["unknown_plan"][step] = None
        return planned

    def _visit_plain(self, estimator: object, flow: Flow, step: str) -> Flow:
        """Visit an estimator without a guarantee, which may learn true values, and return the flow after it.

        Raw columns, which no earlier step has protected, are exposed by such an
        estimator.
        """
        if _steps.learns_nothing(estimator):
            return flow.after(flow.raw)
        # Columns that earlier steps have protected are no longer raw, unless the estimator
        # was fitted elsewhere.
        raw = flow.origins if _steps.has_earlier_fit(estimator) else flow.raw
        is_known = None not in _steps.libraries_of(estimator)
        is_pending = is_known and not _steps.is_fitted(estimator)
        self._expose(raw, NOT_FITTED if is_pending or self._is_plan else LEARNED, step)
        if _steps.learns_target(estimator) and not flow.has_new_target:
            self.notes["target"][step] = None
        if not raw:
            self.notes["after"][step] = None
        elif _steps.has_private_parts(estimator):
            self.notes["not_followed"][step] = None
        if hasattr(estimator, "fit_resample"):
            return flow
        # Predictions contain no column.
        return flow.after(flow.raw if hasattr(estimator, "transform") else NO_COLUMNS)

    def _visit_private(self, private: PrivateStep, step: str) -> Flow:
        """Visit a step with a guarantee, and return the flow after it.

        State its scope, its notes and the columns that it releases unprotected. `step` is
        the name of the step in the statement.
        """
        scope = private.scope
        if not scope and private.protects_values:
            self.notes["public_columns"][step] = None
            return self._visit_plain(private.estimator, private.flow, step)
        self._add_columns(scope)
        self._targets.update(private.targets)
        guarantee = replace(private.guarantee, scope=scope)
        scope = guarantee.scope  # without observed columns
        is_fitted = hasattr(private.estimator, "guarantee_")
        stated = StatedStep(step, guarantee, fitted=is_fitted)
        self._add_step(stated, private.protection, private.targets)
        for release in _steps.list_domains(private.estimator):
            columns = self._domains.setdefault(release, set(release.guarantee.scope))
            columns.update(scope)
        for note in private.list_notes():
            self.notes[note][step] = None
        self._expose(self._find_inferred(private), INFERRED, step)
        for exposure, released in private.list_exposures():
            self._expose(released, exposure, step)
        return private.find_output()

    def _add_step(
        self, stated: StatedStep, protection: str, targets: Collection[Any] = ()
    ) -> None:
        """Add a step with a guarantee, a fact for each column of its scope, and notes.

        `protection` states what the step protects, and `targets` are the names in the
        scope that are not columns of X.
        """
        self.steps.append(stated)
        if not stated.guarantee.secure:
            self.notes["seeded"][stated.step] = None
        if not stated.fitted:
            self.notes["planned"][stated.step] = None
        for name in stated.guarantee.scope:
            is_learned = name in targets and protection != ROWS_IN_FIT
            stated_as = STATISTICS if is_learned else protection
            self.facts[Fact(name, stated.step, stated_as, stated.guarantee)] = None
        if protection == STATISTICS:
            self.notes["statistics"][stated.step] = None

    def _find_inferred(self, private: PrivateStep) -> set[Any]:
        """Return the columns of X and the targets whose categories a step has inferred."""
        inferred = set(_steps.find_inferred(private.estimator))
        known = self._targets.union(self.columns)
        # After other steps, or if `fit` may infer categories (None), the columns are not known,
        # so all raw columns are exposed.
        if inferred and (private.flow.columns is None or not inferred <= known):
            return (inferred & self._targets) | private.flow.raw
        return inferred

    def _expose(self, names: Iterable[Any], protection: str, step: str) -> None:
        """Add the fact that a step releases columns unprotected."""
        for name in self.columns:
            if name in names:
                self.facts[Fact(name, step, protection)] = None

    def finish(self, names_of_X: Iterable[Any]) -> None:
        """Add the facts that are known after the last step only, and columns of X that no step has seen."""
        for learner in self.notes["target"]:
            self._expose(self._targets, LEARNED, learner)
        for release, columns in self._domains.items():
            scope = tuple(name for name in self.columns if name in columns)
            guarantee = replace(release.guarantee, scope=scope)
            self._add_step(StatedStep("domain", guarantee), STATISTICS)
        self._expose(self._returned - self.find_exposed(), RETURNED, "")
        released = {fact.column for fact in self.facts}
        # The placeholder of unknown columns is listed only if something is released.
        released |= {ALL_COLUMNS} if len(self.columns) > 1 else set()
        self._expose(set(self.columns) - released, NOT_RELEASED, "")
        unseen = [name for name in names_of_X if name not in self.columns]
        self.columns += unseen
        self._expose(unseen, NOT_SEEN, "")

    def find_exposed(self) -> set[Any]:
        """Return the columns with a fact without a guarantee, whose true values are released."""
        # `TRANSFORMED` is for fitted statistics that are given away without transformed rows.
        return {
            fact.column
            for fact in self.facts
            if fact.guarantee is None
            and fact.protection not in (TRANSFORMED, NOT_RELEASED, NOT_SEEN)
        }

    def find_covered(self) -> set[Any]:
        """Return the columns that have a guarantee and whose true values no step releases."""
        exposed = self.find_exposed()
        if ALL_COLUMNS in exposed:
            return set()
        scopes = [step.guarantee.scope for step in self.steps]
        # A step that protects the values of named columns may release all other columns.
        return set().union(*scopes).intersection(*self.value_scopes) - exposed

    def find_reason_to_replace(self) -> str | None:
        """Return why the total is for replacing a record; None if it is for adding or removing one."""
        relations = {step.guarantee.relation for step in self.steps}
        if self.notes["target"] or self.find_exposed() or relations - {"add_remove"}:
            return REVEALED
        return COUNTED if self.notes["counted"] else None

    def list_facts(self) -> tuple[Fact, ...]:
        """Return the facts by column; the facts of an exposed column without a guarantee are first, otherwise last."""
        exposed = self.find_exposed()

        def rank(fact: Fact) -> tuple[int, bool]:
            is_late = (fact.guarantee is None) != (fact.column in exposed)
            return self.columns.index(fact.column), is_late

        return tuple(sorted(self.facts, key=rank))

    def list_notes(self) -> list[str]:
        """Return the notes, with the names of their steps."""
        return [
            text.format(steps=", ".join(self.notes[name]))
            for name, text in NOTES.items()
            if self.notes[name]
        ]


def _select_columns(
    estimator: object, flow: Flow, name: str, selected: object
) -> tuple[Any, ...] | None:
    """Return the columns of X that the part `name` of a column transformer gets; None if not known.

    `flow` describes the table of the transformer, and `selected` is the selection of
    its columns by the user.
    """
    # A fitted transformer has the indices, however its columns were selected.
    indices = getattr(estimator, "_transformer_to_input_indices", {}).get(name)
    if indices is not None and flow.names:
        return tuple(flow.names[index] for index in indices)
    listed = [selected] if isinstance(selected, str) else selected
    if not isinstance(listed, list | tuple):
        return None
    is_named = all(isinstance(name, str) for name in listed)
    if is_named and (flow.is_unknown or set(listed) <= set(flow.names)):
        return tuple(listed)
    return None


def _find_reuse(estimator: object, guarantee: PrivacyGuarantee) -> str:
    """Return the name of the note about the privacy loss of further rows."""
    if _steps.is_design(estimator):
        return "answers"
    if guarantee.trust != "central":
        return "permanent" if _steps.is_permanent(estimator) else "reports"
    return "synthetic" if hasattr(estimator, "sample") else "rows"


def _find_targets(
    estimator: object, guarantee: PrivacyGuarantee, flow: Flow, names: Sequence[Any]
) -> list[Any]:
    """Return the names in the scope of a guarantee that are targets, because they are not in `names`, the columns."""
    # Before fit, the scope has names of parameters.
    if not hasattr(estimator, "guarantee_"):
        protect = getattr(estimator, "protect", None)
        if isinstance(protect, str) and protect == "target":
            return list(guarantee.scope)
        if flow.columns is None:
            return []
    if not names and guarantee.relation != "replace_values":
        return []
    named = guarantee.scope + guarantee.observed
    return [name for name in named if name not in names]


def _cover(
    guarantee: PrivacyGuarantee,
    flow: Flow,
    names: Sequence[Any],
    targets: Collection[Any],
) -> tuple[Names, Names]:
    """Return the columns of X that a guarantee covers, and the raw columns that it does not cover.

    `names` are the columns of the table that `flow` describes, and `targets` the names
    in the scope that are not columns. Both results overlap if it is not known which
    columns of X the columns of the table are.
    """
    # Columns whose values were read from the data are processed like the scope, and
    # removed from the protected columns later.
    named = guarantee.scope + guarantee.observed
    selected = [name for name in named if name not in targets]
    protects_values = guarantee.relation == "replace_values"
    parts = flow.split(names, selected or names)
    # After other steps, a change of a protected column may change public columns, so none
    # is covered.
    if protects_values and not (selected and names and flow.columns is not None):
        parts = None
    unknown = NO_COLUMNS if protects_values else flow.origins
    covered, uncovered = parts or (unknown, flow.origins)
    return covered, uncovered & flow.raw
