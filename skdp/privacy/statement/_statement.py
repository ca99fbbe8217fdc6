"""Statement of the guarantees of a pipeline for each column, or of a ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from skdp.privacy._conversions import shown
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy._shuffled import Shuffled, shuffled_guarantee
from skdp.privacy.ledger import PrivacyLedger
from skdp.privacy.statement._facts import (
    AS_IS,
    AT_FIT,
    LEARNT_TARGET,
    NOT_FITTED,
    NOT_RELEASED,
    NOT_SEEN,
    READ,
    Row,
    StatedStep,
    protected_row,
    rows_of_ledger,
    sum_of,
    table_of,
    total_of_ledger,
    unprotected_row,
)
from skdp.privacy.statement._known import (
    EVERYTHING,
    TARGET,
    Flow,
    Names,
    columns_read,
    declared_names,
    has_own_methods,
    has_spending_parts,
    is_a,
    is_estimator,
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
    read_names,
    reporter_of,
    selects_by_function,
    side_by_side,
    takes_weights,
    target_names,
    was_fitted_before,
    what_draws,
)
from skdp.privacy.statement._result import (
    COUNTS_TWICE,
    PrivacyStatement,
    amounts,
    conversion,
    listed,
)

# Placeholder for columns that an unfitted column transformer does not name.
OTHERS = "(other columns)"

WEIGHTS = (
    "Weights (sample_weight), if fit was given any, are no column of X, and are learnt "
    "from as they are by: "
)

AFTER = "Post-processing of protected columns, which costs nothing: "

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
        # Of a remark, the steps that it is about.
        self.remarks: dict[str, list[str]] = {}
        self.notes: list[str] = []
        self.ledgers: dict[Any, PrivacyLedger] = {}
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
        for name, part, chosen in _transformers(estimator):
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
            return not has_own_methods(estimator)
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
        protects = _protects(estimator, guarantee)
        has_rows = hasattr(estimator, "transform")
        # By the scope as it was fitted: a guarantee of released rows has another scope.
        targets = target_names(estimator, guarantee, flow)
        if guarantee.relation == "replace_values":
            if self._note_public_target(estimator, targets, step):
                return self._plain(estimator, flow, step)
            is_public = not targets and not flow.has_new_target
            if is_public and learns_target(estimator):
                self._remark(LEARNT_TARGET, step)
        # Rows show how many records there are, also if `fit_transform` alone returns
        # them: a guarantee for adding or removing one becomes one for replacing it.
        if protects and has_rows:
            of_rows = self._of_released_rows(estimator, guarantee, step)
            if of_rows is None:
                return self._plain(estimator, flow, step)
            guarantee = of_rows
        covered, uncovered = flow.covered_by(guarantee.scope, names_in(estimator))
        if guarantee.relation == "replace_values":
            covered, uncovered = _protected_by(estimator, guarantee, flow, targets)
            # It may read all others exactly, also for statistics alone.
            self.expose(uncovered, AS_IS, step)
        if flow.is_curated and covered & flow.raw:
            guarantee = self._of_curator(guarantee, step)
        scope = self._scope_of(guarantee, covered, targets)
        if guarantee.relation == "replace_values" and not scope:
            self.notes.append(
                f"It is not known of which columns of X that is made which {step} "
                "protects, as it is behind other steps, or of an array: nothing is "
                "promised of them. Let it be the first step, and X a dataframe."
            )
            return self._plain(estimator, flow, step)
        self._targets.update(targets, targets.values())
        if targets and "target" in flow.origins:
            self.notes.append(
                f"{listed(list(map(str, targets.values())))} is the target that fit of "
                f"{step} gets beside X, which has another column, target."
            )
        self._note_caps(estimator, step)
        self._expose_read(estimator, flow, targets, step)
        stated = self._stated(estimator, replace(guarantee, scope=scope), step)
        flow = self._add_promise(stated, protects, targets, flow, has_rows=has_rows)
        if has_rows or hasattr(estimator, "fit_resample"):
            # What stays raw behind it: statistics alone leave the rows as they are.
            return flow.behind(uncovered if protects else flow.raw)
        # An estimator without rows passes predictions on, but has seen the columns that
        # its promise leaves out.
        self.expose(uncovered, AS_IS, step)
        return flow.behind(frozenset())

    def _note_public_target(
        self, estimator: Any, targets: Mapping[Any, Any], step: str
    ) -> bool:
        """Note a private target that has the name of a public column, and return whether it has."""
        is_of_target = isinstance(getattr(estimator, "protect", None), str)
        if not is_of_target or not hasattr(estimator, "guarantee_"):
            return False
        for name, stated_name in targets.items():
            # A y without a name is called "target", whatever columns X has.
            if name in (stated_name, "target"):
                continue
            self.notes.append(
                f"{step} protects a y of the name of a column of X, {name}, which is "
                "released as is: so nothing is promised of y. If it is about something "
                "else, name it otherwise."
            )
            return True
        return False

    def _note_caps(self, estimator: Any, step: str) -> None:
        """Note what a step of ours was to lose at most for some columns of its table."""
        caps = getattr(estimator, "_caps", ()) if is_of_skdp(estimator) else ()
        for cap in caps:
            records = "one record"
            if cap.max_rows_per_person > 1:
                records = f"up to {cap.max_rows_per_person} records of one person"
            self.notes.append(
                f"{listed(list(map(str, cap.scope)))} alone: {amounts(cap)}, for "
                f"replacing their values in {records}, from what the fit of {step} has "
                "learnt, if all other columns of its table are public (epsilon_for)."
            )
        if caps:
            whole = estimator.guarantee_
            self.notes.append(
                f"What epsilon_for promises is not added to the guarantee_ of {step}, "
                f"{amounts(whole)} for {whole._neighbours()}, but said of the same "
                "release: a ledger of whole records counts guarantee_, and the table "
                "has what follows from it."
            )

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

    def _of_curator(self, guarantee: PrivacyGuarantee, step: str) -> PrivacyGuarantee:
        """Return the guarantee of a step behind one that learns from true values."""
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
        """State a step, and add its ledgers, and what shuffling leaves open, to the statement."""
        charged = self._add_ledgers(estimator)
        shuffled = self._after_shuffling(estimator, guarantee, step)
        return StatedStep(
            step,
            guarantee,
            known=library_of(estimator) == "skdp",
            charged=charged,
            fitted=hasattr(estimator, "guarantee_"),  # a plan is not
            shuffled=shuffled,
        )

    def _of_released_rows(
        self, estimator: Any, guarantee: PrivacyGuarantee, step: str
    ) -> PrivacyGuarantee | None:
        """Return the promise about released rows, which show how many there are."""
        # Their number tells whether a record was added: only a promise for replacing one
        # holds when everything that the step shows is put together.
        if guarantee.relation == "replace_values":
            return guarantee
        if guarantee.relation == "replace" and not _protected_names(estimator):
            return guarantee
        try:
            converted = guarantee.to("replace")
        # Twice a large delta promises nothing.
        except ValueError:
            self.notes.append(
                f"{step} shows how many rows there are, and no promise for replacing a "
                f"record follows from {amounts(guarantee)} for adding or removing one: "
                "so nothing is promised."
            )
            return None
        names = _protected_names(estimator)
        if names:
            self.notes.append(
                f"{step} leaves other columns of each row as they are. These show who "
                "is there, so the promise about the columns that it protects is for "
                f"replacing their values: {conversion(guarantee)}."
            )
            return replace(converted, scope=names)
        self.notes.append(
            f"{step} returns as many rows as it is given, which shows how many there "
            "are: so the promise about them is for replacing a record: "
            f"{conversion(guarantee)}. Its guarantee_ is the promise about what it has "
            "learnt."
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

    def _after_shuffling(
        self, estimator: Any, guarantee: PrivacyGuarantee, step: str
    ) -> PrivacyGuarantee | None:
        """Return what reports guarantee after shuffling, if that was asked for; note why not."""
        reporter = reporter_of(estimator)
        if reporter is None:
            return None
        request: Shuffled = reporter.epsilon
        try:
            shuffled = shuffled_guarantee(
                reporter, request.n, request.delta, released=request.released
            )
        # Such as that of persons with several records.
        except (TypeError, ValueError):
            shuffled = None
        promise = "What its reports guarantee then is not known here."
        if shuffled is not None:
            if shuffled.epsilon <= request.epsilon:
                shuffled = replace(
                    shuffled, epsilon=request.epsilon, delta=request.delta, losses=()
                )
            shuffled = replace(shuffled, scope=guarantee.scope)
            promise = _promise_of_shuffled(request, shuffled)
        self.notes.append(
            f"{step} was asked for epsilon {shown(request.epsilon)}, delta "
            f"{shown(request.delta)} after shuffling. {promise} Each report by itself "
            f"has epsilon {shown(guarantee.epsilon)} (local model). That is stated "
            "here, and charged to a ledger, because reports leave this step "
            "unshuffled: against those who hold them, no more holds."
        )
        return shuffled

    def expose(self, names: Iterable[Any], protection: str, step: str) -> None:
        """Record that a step releases columns unprotected."""
        for name in names:
            steps = self.exposures.setdefault(name, {}).setdefault(protection, [])
            if step not in steps:
                steps.append(step)

    def _remark(self, text: str, step: str) -> None:
        self.remarks.setdefault(text, []).append(step)

    def finish(self) -> None:
        """Void promises about the target if a step learns the true target."""
        for step in self.remarks.get(LEARNT_TARGET, ()):
            self.expose(self._targets, AS_IS, step)

    def shows_records(self) -> bool:
        """Whether it shows which records there are, or how many."""
        # Then a guarantee for adding or removing one says less than what is seen.
        if self.exposures or self.leaving or LEARNT_TARGET in self.remarks:
            return True
        relations = {promise.guarantee.relation for promise in self.promises}
        return not relations <= {"add_remove"}


def _promise_of_shuffled(request: Shuffled, shuffled: PrivacyGuarantee) -> str:
    """Say what reports guarantee after shuffling, and against whom."""
    released = "their sums are"
    if request.released == "reports":
        # In the rows of a table, reports of other steps or other columns tell which of
        # them are of one person.
        released = (
            "these reports in a random order of their own, apart from reports of other "
            "steps and from other columns of the same rows, are"
        )
    return (
        f"Its reports guarantee {amounts(shuffled)} (shuffle model) against those who "
        "see nothing of them but what is released, if at least "
        f"{request.n:,} reports of honest persons are shuffled or summed and only "
        f"{released} released. Those who shuffle or sum them are trusted not to look "
        "at single reports."
    )


def _is_dropped(part: Any) -> bool:
    return isinstance(part, str) and part == "drop"


def _transformers(transformer: Any) -> list[tuple[str, Any, Any]]:
    """Return the names, parts and columns of a column transformer."""
    transformers = getattr(transformer, "transformers_", transformer.transformers)
    return list(transformers)


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


_SHOWN = "Which records there are, or how many, is shown here"

_PROTECTION = {True: "rows", "fit": AT_FIT, False: "statistics only"}


def privacy_statement(
    estimator: Any, X: Any = None, *, trusted: Sequence[type] = ()
) -> PrivacyStatement:
    """State the guarantee of a pipeline for each column, and which columns it releases unprotected.

    Pipelines, column transformers and feature unions are followed step by step. What is not known is "released as is":
    the columns of each class that is not exactly one of scikit-learn, imbalanced-learn or skdp (subclasses, classes of
    the same name or with the same attributes, objects with methods of their own, classes with a replaced method), of a
    class of skdp that wraps one of these, and of searches, votes, stacks and all other meta-estimators: these fit
    what they are made of several times, and each fit is a release. Behind a step that protects rows, they are
    post-processing.

    Parameters
    ----------
    estimator : estimator, list of estimators, or PrivacyLedger
        Fitted, or not fitted yet: then it is stated what each step is set to spend. The estimators of a list are about
        the same persons. Of a ledger, the statement lists what was charged.
    X : dataframe, Domain or ndarray of shape (n_samples, n_features), optional
        The table, of which only the column names are read: columns that the estimator was not fitted on are listed too.
    trusted : sequence of classes, default=()
        Classes whose `guarantee_` and `protects_rows` are trusted, in addition to those of skdp, without their
        subclasses.

    Returns
    -------
    PrivacyStatement
        A table, the total, and notes.

    Raises
    ------
    TypeError
        If `estimator` is not an estimator or a list of them, X is not a table, or `trusted` not a sequence of classes.
    ValueError
        If X lacks columns that the estimator was fitted on, or the list is empty.

    Notes
    -----
    **Privacy.** Read from attributes; nothing is charged and no data are read. The total is the sum over all steps,
    including successive steps on the same column: an upper bound. It is for one call of `fit` and, for local
    transformers, one call of `transform`; further calls that release something are counted by a `PrivacyLedger` only.

    Estimators of skdp and of trusted classes state their guarantee in ``guarantee_``, whose scope names the columns.
    ``protects_rows`` is True if the rows that `transform` returns are protected (the default in the local model), "fit"
    if only those of `fit_transform` are, False if only the statistics are private (the default in the central model),
    or a list of the columns that are protected in these rows. The target and weights (``sample_weight``) are not
    columns: the total includes what is promised of the target; weights are unprotected.

    The total is for adding or removing a record only if nothing else shows which records there are, or how many. Else
    it is for replacing one, which is both: epsilon counts twice. This is shown by columns or a target that are seen or
    leave unprotected, by categories or classes that are read from the data, by reports, and by steps that are not
    fitted. A function that selects the columns of a `ColumnTransformer` sees all of them, which are "released as is".

    **Before fit**, a statement lists the most that each step is set to spend, as its parameters say, and `notes` has
    their sum. It reads nothing, and it is no promise: nothing is released yet. What follows from the columns or the
    rows that `fit` sees is said in words, and has no total: probabilities in place of an epsilon, `Shuffled`,
    categories "auto", what a meta-estimator makes of its parts. If some parts are fitted and others are not, nothing is
    promised of the latter.

    If a step of a pipeline is replaced after `fit`, the release of the previous step is not stated.

    The scope of the total has only columns of which nothing is released without protection. It excludes columns whose
    categories were read from the data (which values occur is unprotected), and columns that are released unprotected
    beside private statistics of them. Where a step protects the values of named columns only ("replace_values"), the
    columns that it reads are released as they are but for these, and the total is for those that all such steps
    protect.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.compose import ColumnTransformer
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.privacy import privacy_statement
    >>> people = pd.DataFrame({"sex": ["F", "M"], "job": ["clerk", "cook"], "age": [30, 40]})
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["F", "M"]})
    >>> columns = ColumnTransformer([("sex", encoder, ["sex"]), ("age", "passthrough", ["age"])]).fit(people)
    >>> statement = privacy_statement(columns)
    >>> statement.rows[["column", "epsilon", "protection"]]
      column  epsilon      protection
    0    sex      1.0            rows
    1    job      NaN    not released
    2    age      NaN  released as is
    >>> print(statement.total)
    epsilon = 1, local model, replacing one record's values of: sex

    Before any data, what a pipeline is set to spend:

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdp import DPStandardScaler
    >>> scaled = make_pipeline(DPStandardScaler(0.1, bounds={"age": (0, 100)}), LogisticRegression())
    >>> [step.guarantee.epsilon for step in privacy_statement(scaled).steps]
    [0.1]
    """
    if isinstance(estimator, PrivacyLedger):
        return _statement_of_ledger(estimator)
    estimators = _check_estimators(estimator)
    if isinstance(trusted, type) or not all(isinstance(kind, type) for kind in trusted):
        raise TypeError("trusted must be a sequence of classes")
    names_of_X = read_names(X)
    tables = [_columns_of(part, names_of_X) for part in estimators]
    columns: dict[Any, None] = {}
    for names in tables:
        columns |= dict.fromkeys(names or [EVERYTHING])
    # What is partly fitted has released something that is not known here: its steps may
    # have been others.
    walk = Walk(columns, trusted, is_plan=not any(map(is_fitted, estimators)))
    for index, (part, names) in enumerate(zip(estimators, tables, strict=True)):
        path = f"{index}" if len(estimators) > 1 else ""
        output = walk.visit(part, Flow.start(names), path)
        if _gives_rows(part):
            walk.leaving |= output.raw
    walk.finish()
    rows = _rows(walk)
    for name in names_of_X or ():
        if name not in walk.columns:
            rows.append(unprotected_row(name, "", NOT_SEEN))
    total = _total(walk)
    remarks = _remarks(walk)
    ledgers = _records(walk)
    return PrivacyStatement(
        table_of(rows),
        total,
        (*walk.notes, *remarks),
        tuple(promise.stated for promise in walk.promises),
        ledgers,
    )


def _check_estimators(estimator: Any) -> list[Any]:
    estimators = list(estimator) if isinstance(estimator, list | tuple) else [estimator]
    if not estimators:
        raise ValueError("there is no estimator to state anything about")
    for part in estimators:
        if isinstance(part, type):
            raise TypeError(
                f"privacy_statement needs estimators, got the class {part.__name__}"
            )
        if not is_estimator(part):
            raise TypeError(
                f"privacy_statement needs estimators, got {type(part).__name__}; of "
                "reports, give what skdp.read_protocol reads from them, or use skdp "
                "statement FILE"
            )
    return estimators


def _columns_of(
    estimator: Any, names_of_X: tuple[Any, ...] | None
) -> tuple[Any, ...] | None:
    """Return the columns that an estimator was fitted on, by their names in X."""
    fitted = names_in(estimator)
    if fitted is None:
        return names_of_X
    if names_of_X is None:
        return fitted
    are_positions = all(isinstance(name, str) for name in fitted)
    if hasattr(estimator, "feature_names_in_") or not are_positions:
        lacking = [name for name in fitted if name not in names_of_X]
        if lacking:
            raise ValueError(
                f"X lacks columns that {type(estimator).__name__} was fitted on: "
                f"{lacking}"
            )
        return fitted
    if len(names_of_X) != len(fitted):
        raise ValueError(
            f"X has {len(names_of_X)} columns; {type(estimator).__name__} was fitted "
            f"on {len(fitted)}"
        )
    return names_of_X


def _gives_rows(estimator: Any) -> bool:
    """Whether `fit_transform` of an estimator, or of its last step, returns rows."""
    if is_pipeline(estimator):
        return _gives_rows(estimator.steps[-1][1])
    return hasattr(estimator, "guarantee_") or not hasattr(estimator, "predict")


def _rows(walk: Walk) -> list[Row]:
    """Return the rows of all columns."""
    rows = []
    for name in walk.columns:
        is_released = name in walk.exposures or name in walk.leaving
        if name == EVERYTHING and len(walk.columns) > 1 and not is_released:
            continue
        is_promised = False
        has_statistics = False
        for promise in walk.promises:
            if name in promise.guarantee.scope:
                is_promised = True
                has_statistics |= promise.protection_of(name) is False
                rows.append(_promised_row(name, promise, walk))
        exposures = walk.exposures.get(name, {})
        for protection in (READ, NOT_FITTED, AS_IS):
            if protection in exposures:
                steps = ", ".join(exposures[protection])
                rows.append(unprotected_row(name, steps, protection))
        if AS_IS in exposures or NOT_FITTED in exposures:
            continue
        if name in walk.leaving and not has_statistics:
            rows.append(unprotected_row(name, "", AS_IS))
        elif not is_promised:
            rows.append(unprotected_row(name, "", NOT_RELEASED))
    return rows


def _promised_row(name: Any, promise: Promise, walk: Walk) -> Row:
    protects = promise.protection_of(name)
    protection = _PROTECTION[protects]
    if protects is False and name in walk.leaving:
        protection = f"{AS_IS}, beside private statistics"
    if not promise.stated.fitted:
        protection += "; not fitted yet"
    together = [str(column) for column in promise.guarantee.scope if column != name]
    if together:
        protection += f" (together with {listed(together)})"
    return protected_row(name, promise.stated, protection)


def _total(walk: Walk) -> PrivacyGuarantee | None:
    """Add up what is promised of columns that nothing else releases."""
    # What is read or leaves as it is has no promise, whatever other steps protect.
    released = {*walk.exposures, *walk.leaving}
    promised: set[Any] = set()
    for promise in walk.promises:
        promised.update(promise.guarantee.scope)
    covered = [name for name in walk.columns if name in promised - released]
    if not covered or EVERYTHING in released:
        return None
    is_of_values = _is_of_values(walk)
    if is_of_values:
        covered = _protected_by_all(walk, covered)
        if not covered:
            return None
    # Each promise is converted by itself: of their sum, delta would be larger.
    is_replaced = walk.shows_records()
    guarantees = []
    conversions = []
    for promise in walk.promises:
        guarantee = promise.guarantee
        # The target is about the same persons.
        if {TARGET, *covered}.isdisjoint(guarantee.scope):
            continue
        if is_replaced and guarantee.relation == "add_remove":
            try:
                text = f"{promise.stated.step}: {conversion(guarantee)}"
            except ValueError:
                walk.notes.append(
                    f"{_SHOWN}, so only a promise for replacing a record would hold. "
                    "None follows from epsilon and delta of: "
                    f"{promise.stated.step}."
                )
                return None
            conversions.append(text)
            guarantee = guarantee.to("replace")
        if is_of_values:
            guarantee = guarantee.to("replace_values", covered)
        guarantees.append(guarantee)
    if conversions:
        walk.notes.append(
            f"{_SHOWN}, so the total is for replacing a record: {COUNTS_TWICE}. "
            f"{'; '.join(conversions)}."
        )
    return replace(sum_of(guarantees), scope=tuple(covered))


def _is_of_values(walk: Walk) -> bool:
    """Whether a step protects the values of named columns only."""
    relations = [promise.guarantee.relation for promise in walk.promises]
    return "replace_values" in relations


def _protected_by_all(walk: Walk, columns: Sequence[Any]) -> list[Any]:
    """Return the columns that all steps which protect named columns protect."""
    steps = []
    covered = list(columns)
    for promise in walk.promises:
        if promise.guarantee.relation == "replace_values":
            steps.append(promise.stated.step)
            covered = [name for name in covered if name in promise.guarantee.scope]
    others = [str(name) for name in columns if name not in covered]
    if others:
        walk.notes.append(
            f"All columns but the protected ones are public for {', '.join(steps)}: so "
            f"nothing is promised in total of {listed(others)}."
        )
    return covered


def _remarks(walk: Walk) -> list[str]:
    """Return the remarks for all steps of a kind."""
    steps = [promise.stated for promise in walk.promises]
    remarks = []
    if not all(step.fitted for step in steps):
        remarks.append(
            "Of a step that is not fitted, epsilon and delta are the most that it is "
            "set to spend. Where nothing is learnt from the data, as with bounds or "
            "categories that are declared, it may spend nothing."
        )
        if UNKNOWN_PLAN not in walk.remarks:
            remarks += _planned_total(steps)
    protections: set[Any] = set()
    for promise in walk.promises:
        protections.update(map(promise.protection_of, promise.guarantee.scope))
    if False in protections:
        remarks.append(
            "Where statistics only are protected, the promise is about what fit has "
            "learnt, not about rows."
        )
    if protections - {False}:
        remarks.append(
            "Each further fit that reads the data, and each further call that "
            "privatises rows and is not memoised, costs as much again; rows that are "
            "made from what fit has learnt are free."
        )
    for text, names in walk.remarks.items():
        remarks.append(f"{text}{', '.join(dict.fromkeys(names))}.")
    return remarks


def _planned_total(steps: Sequence[StatedStep]) -> list[str]:
    """Say what steps that are not fitted are set to spend together."""
    try:
        total = sum_of(step.guarantee for step in steps)
    # They protect different columns, or are not converted to one relation.
    except ValueError as error:
        return [f"All steps together: {error}."]
    return [
        f"All steps together are set to spend at most {amounts(total)}, for "
        f"{total._neighbours()}."
    ]


def _records(walk: Walk) -> tuple[PrivacyLedger, ...]:
    """Copy ledgers as they are now; those that cannot be read are noted."""
    records = []
    for ledger in walk.ledgers.values():
        try:
            records.append(ledger._record())
        except (OSError, ValueError, RuntimeError):
            walk.notes.append(
                "The composition so far is not stated: a ledger cannot be read here."
            )
    return tuple(records)


_OF_A_LEDGER = (
    "This is the statement of a ledger: it lists what was charged, by the names that "
    "the releases gave. Which columns left without a charge, and whether each release "
    "kept what it was charged for, a ledger does not know."
)

_TOTAL_OF_A_LEDGER = (
    "The total is what the ledger was charged so far, with the delta of the budget if "
    "it has one. What is promised however charges were chosen, and of later ones, too, "
    "is the budget."
)

_OF_PARTS = (
    "Steps from a part of the rows were charged in `PrivacyLedger.parallel`. Their "
    "epsilon here is as if each record were in all of them, the most that one can lose. "
    "A record in some of the parts loses less: the total counts, of each record, only "
    "the releases that it is in, and is that of the record that loses most. So it may "
    "be less than the sum of the steps."
)


def _statement_of_ledger(ledger: PrivacyLedger) -> PrivacyStatement:
    """State the charges of a ledger, in its relation."""
    record = ledger._record()
    rows, steps = rows_of_ledger(record)
    notes = [_OF_A_LEDGER, _TOTAL_OF_A_LEDGER]
    if any(charge.of_part for charge in record._book.charges()):
        notes.append(_OF_PARTS)
    return PrivacyStatement(
        table_of(rows),
        total_of_ledger(ledger, steps),
        tuple(notes),
        tuple(steps),
        (record,),
    )
