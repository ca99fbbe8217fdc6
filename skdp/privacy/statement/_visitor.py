"""Walk through a pipeline: collect the guarantee of each step, and the columns it sees unprotected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from skdp.privacy._composition import repeated
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.ledger import PrivacyLedger
from skdp.privacy.statement._columns import EVERYTHING, TARGET, Column, Flow, names_in
from skdp.privacy.statement._meaning import amounts
from skdp.privacy.statement._parts import (
    columns_read,
    estimators_in,
    fed_parts,
    has_own_methods,
    is_a,
    is_fitted,
    knows_scorers,
    learns_from_predictions,
    learns_nothing,
    learns_target,
    ledgers_of,
    library_of,
    mixes_columns,
    more_uses,
    parts_of,
    reads_classes,
    selects_by_function,
    shows_rows,
    splits_by_target,
    takes_weights,
)
from skdp.privacy.statement._planned import (
    is_of_skdp,
    is_search,
    may_read_categories,
    most_fits,
    planned_guarantee,
    searched_values,
    spends,
)
from skdp.privacy.statement._shuffling import after_shuffling

Protects = Literal[True, False, "fit"]
"""Whether the rows that a step returns are protected: always, never, or only at fit."""


@dataclass(frozen=True)
class Promise:
    """The guarantee of one step."""

    columns: tuple[Any, ...]
    step: str
    guarantee: PrivacyGuarantee
    protects: Protects
    target: tuple[Any, ...] = ()
    new_target: bool = False
    """Whether the step replaces the target by a protected one."""
    made_up: bool = False
    known: bool = True
    charged: bool = False
    fitted: bool = True
    shuffled: PrivacyGuarantee | None = None

    def of(self, name: Any) -> Protects:
        """Return whether the rows of a column are protected."""
        return False if name in self.target and not self.new_target else self.protects


class Walk:
    """Collector of the guarantees of all steps."""

    def __init__(
        self,
        names: Sequence[Any],
        trusted: Sequence[type] = (),
        *,
        planning: bool = False,
    ) -> None:
        self.columns = list(names)
        self._planning = planning
        self._trusted = tuple(trusted)
        self.promises: list[Promise] = []
        self.seen: dict[Any, list[str]] = {}
        self.unfitted: dict[Any, list[str]] = {}
        self.read: dict[Any, list[str]] = {}
        self.after: list[str] = []
        self.weighted: list[str] = []
        self.from_target: list[str] = []
        self.targets: set[Any] = set()
        self.counted: list[str] = []
        self.notes: list[str] = []
        self.uncounted: list[str] = []
        self.ledgers: dict[Any, PrivacyLedger] = {}

    def visit(self, estimator: Any, flow: Flow, path: str = "") -> Flow:
        """Follow a table through an estimator."""
        made = self._follow(estimator, flow, path)
        if hasattr(estimator, "transform") and not hasattr(estimator, "fit_transform"):
            return made.repeated(
                flow
            )  # at fit too, the next step gets the output of `transform`
        return made

    def _follow(self, estimator: Any, flow: Flow, path: str) -> Flow:
        step = (
            f"{path}: {type(estimator).__name__}" if path else type(estimator).__name__
        )
        if self._is_private(estimator):
            if getattr(estimator, "reads_reports", False) and not flow.merged.raw:
                return self._plain(
                    estimator, flow, step
                )  # the reports are those of steps before
            return self._privatizer(estimator, estimator.guarantee_, flow, step)
        if is_a(estimator, "sklearn.frozen.FrozenEstimator"):
            return self.visit(estimator.estimator, flow, path)
        if is_a(estimator, "sklearn.pipeline.Pipeline", "imblearn.pipeline.Pipeline"):
            for name, part in estimator.steps:
                if not _passes(part):
                    flow = self.visit(part, flow, _join(path, name))
            return flow
        if is_a(estimator, "sklearn.compose.ColumnTransformer"):
            return self._by_columns(estimator, flow, path, step)
        if is_a(estimator, "sklearn.pipeline.FeatureUnion"):
            parts = [
                (name, part)
                for name, part in estimator.transformer_list
                if part != "drop"
            ]
            flows = [
                flow if _passes(part) else self.visit(part, flow, _join(path, name))
                for name, part in parts
            ]
            return Flow.side_by_side(flows, flow.spread(flow.merged, estimator).names)
        if not is_fitted(estimator):
            return self._unfitted(estimator, flow, path, step)
        if hasattr(estimator, "best_estimator_") and library_of(estimator) == "sklearn":
            return self._search(estimator, flow, path, step)
        if self._promises(estimator):
            return self._meta(estimator, flow, path, step)
        return self._plain(estimator, flow, step)

    def _is_private(self, estimator: Any) -> bool:
        """Whether an estimator has a trusted guarantee."""
        if not isinstance(getattr(estimator, "guarantee_", None), PrivacyGuarantee):
            return False
        if type(estimator) in self._trusted:
            return not has_own_methods(estimator)
        # A wrapper of a privatiser takes its guarantee and its rows from it; a local transformer releases rows by its
        # protocol.
        kept = [estimator]
        if hasattr(estimator, "protocol_"):
            kept += [estimator.protocol_, *estimator.protocol_.fields]
        known = all(library_of(part) == "skdp" for part in kept)
        return known and all(map(self._is_private, parts_of(estimator)))

    def _promises(self, estimator: Any) -> bool:
        """Whether an estimator or one of its parts has a trusted guarantee."""
        return self._is_private(estimator) or any(
            map(self._promises, parts_of(estimator))
        )

    def _unfitted(self, estimator: Any, flow: Flow, path: str, step: str) -> Flow:
        """Follow a table through an estimator that is not fitted."""
        if not self._planning:
            return self._plain(estimator, flow, step)
        if is_of_skdp(estimator):
            return self._planned(estimator, flow, step)
        return self._planned_parts(estimator, flow, path, step)

    def _planned(self, estimator: Any, flow: Flow, step: str) -> Flow:
        """Follow a table through an estimator of skdp that is not fitted."""
        guarantee = planned_guarantee(estimator)
        if guarantee is None:
            self.uncounted.append(step)
            self.notes.append(
                f"What {step} is set to spend follows from its parameters and the columns that fit sees."
            )
            return self._plain(estimator, flow, step)
        if getattr(estimator, "reads_reports", False) and not flow.merged.raw:
            return self._plain(estimator, flow, step)
        return self._privatizer(estimator, guarantee, flow, step)

    def _privatizer(
        self, estimator: Any, stated: PrivacyGuarantee, flow: Flow, step: str
    ) -> Flow:
        guarantee, everything, fitted = (
            stated,
            flow.merged,
            hasattr(estimator, "guarantee_"),
        )
        protects = _protects(estimator, guarantee)
        own = names_in(estimator) or flow.names or ()
        named_target = [
            name
            for name in guarantee.scope
            if flow.has_target and own and name not in own
        ]
        # Behind a step that returns an array, the target may have the name of a column of X.
        target = tuple(_target_name(name, everything.origins) for name in named_target)
        named = _named(estimator)
        shows_rows = named is not None or (
            protects is True and hasattr(estimator, "transform")
        )
        if shows_rows and not _can_be_for_replacing(guarantee):
            self.notes.append(
                f"{step} shows how many rows there are, and no promise for replacing a record follows from "
                f"{amounts(guarantee)} for adding or removing one: so nothing is promised."
            )
            return self._plain(estimator, flow, step)
        if named is not None:
            converted = replace(guarantee.to("replace"), scope=named)
            self.notes.append(
                f"{step} leaves other columns of each row as they are. These show who is there, so the promise about "
                f"the columns that it protects is for replacing their values: {_doubled(guarantee, converted)}."
            )
            guarantee = converted
        elif shows_rows and guarantee.relation == "add_remove":
            converted = guarantee.to("replace")
            self.notes.append(
                f"{step} returns as many rows as it is given, which shows how many there are: so the promise about "
                f"them is for replacing a record: {_doubled(guarantee, converted)}. Its guarantee_ is the promise "
                "about what it has learnt."
            )
            guarantee = converted
        scope, read, nothing = (
            guarantee.scope or own,
            columns_read(estimator),
            Column.merged([]),
        )
        inside, outside = (
            flow.chosen(own, scope.__contains__),
            flow.chosen(own, lambda name: name not in scope),
        )
        if (
            inside is None or outside is None
        ):  # it is not known which columns are covered, unless all are
            told = not guarantee.scope or (own and all(name in scope for name in own))
            inside, outside = everything, nothing if told else everything
        if flow.curated and inside.raw and guarantee.trust != "central":
            guarantee = replace(guarantee, trust="central")
            self.notes.append(
                f"{step} comes after a step that learns from true values: somebody has to be trusted with them, so "
                "this is the central model."
            )
        from_data = flow.chosen(own, read.__contains__) if flow.has_target else nothing
        if not fitted:
            from_data = everything if may_read_categories(estimator) else nothing
        elif from_data is None:
            from_data = (
                everything
                if any(name not in named_target for name in read)
                else nothing
            )
        read_targets = [
            name
            for name, own_name in zip(target, named_target, strict=True)
            if own_name in read
        ]
        for name in (*from_data.raw, *read_targets):
            self.read.setdefault(name, []).append(step)
        columns = tuple(name for name in self.columns if name in inside.origins)
        if inside.origins == {EVERYTHING} and flow.has_target:
            columns = guarantee.scope or columns
        columns += target
        self.columns += [name for name in columns if name not in self.columns]
        # A resampler that is not fitted yet is going to return a target if it gets one.
        has_target = bool(target) or not fitted
        new_target = (
            has_target and bool(protects) and not hasattr(estimator, "transform")
        )
        made_up = stated.trust == "central"
        known = library_of(estimator) == "skdp"
        ledgers = ledgers_of(estimator)
        self.ledgers |= {ledger.path or id(ledger): ledger for ledger in ledgers}
        shuffled, remark = after_shuffling(estimator, guarantee, columns, step)
        self.notes += [remark] if remark else []
        self.promises.append(
            Promise(
                columns,
                step,
                guarantee,
                protects,
                target=target,
                new_target=new_target,
                made_up=made_up,
                known=known,
                charged=bool(ledgers),
                fitted=fitted,
                shuffled=shuffled,
            )
        )
        # What learns the true target may so learn the column of its name.
        self.targets.update(target, named_target)
        raw = outside.raw if protects else everything.raw
        late = (
            outside.late
            if protects is True and hasattr(estimator, "transform")
            else everything.late
        )
        if not (hasattr(estimator, "transform") or hasattr(estimator, "fit_resample")):
            self._see(outside.raw, step)
            raw = frozenset()
        made = flow.spread(Column(everything.origins, raw, late), estimator)
        return replace(made, new_target=flow.new_target or new_target)

    def _by_columns(self, estimator: Any, flow: Flow, path: str, step: str) -> Flow:
        if not hasattr(estimator, "transformers_"):
            if not self._planning:
                return self._plain(estimator, flow, step)
            if selects_by_function(estimator):
                for name in flow.merged.raw:
                    self.unfitted.setdefault(name, []).append(step)
            return self._by_planned_columns(estimator, flow, path)
        if selects_by_function(estimator):
            self._see(flow.merged.raw, step)
        names = names_in(estimator)
        if flow.exact and names is not None and len(names) == len(flow.columns):
            flow = replace(flow, names=names)
        parts = []
        for name, part, chosen in estimator.transformers_:
            selected = flow.select(chosen)
            if part == "drop" or not selected.columns:
                continue
            made = (
                selected
                if _passes(part)
                else self.visit(part, selected, _join(path, name))
            )
            place = estimator.output_indices_[name]
            width = place.stop - place.start
            if not made.exact or len(made.columns) != width:
                made = replace(
                    made, columns=(made.merged,) * width, names=None, exact=True
                )
            parts.append(made)
        return Flow.side_by_side(parts, flow.spread(flow.merged, estimator).names)

    def _by_planned_columns(self, estimator: Any, flow: Flow, path: str) -> Flow:
        """Follow a table through a column transformer that is not fitted."""
        selected = [
            (name, part, flow.select(chosen))
            for name, part, chosen in estimator.transformers
        ]
        choices = [chosen for _, _, chosen in estimator.transformers]
        selected.append(("remainder", estimator.remainder, flow.unselected(choices)))
        made = []
        for name, part, columns in selected:
            if columns.columns and not (isinstance(part, str) and part == "drop"):
                made.append(
                    columns
                    if _passes(part)
                    else self.visit(part, columns, _join(path, name))
                )
        return Flow.side_by_side(made, None)

    def _search(self, estimator: Any, flow: Flow, path: str, step: str) -> Flow:
        best, before = estimator.best_estimator_, len(self.promises)
        made = self.visit(best, flow, path)
        varies = self._varies_privacy(estimator, best)
        self._repeat(before, None if varies else more_uses(estimator), step)
        self._searched(estimator, made, flow, before, step)
        if varies:
            self._see(
                flow.merged.raw, step
            )  # other candidates may have used columns that the best one does not
        return made

    def _searched(
        self, search: Any, made: Flow, flow: Flow, start: int, step: str
    ) -> None:
        """Record what a search learns from splits of the rows, and from their scores."""
        if not knows_scorers(search):
            self._see(flow.merged.raw, step)
        self._split(search, flow, start, step)
        self._scored(search, made, flow, step)

    def _planned_parts(self, estimator: Any, flow: Flow, path: str, step: str) -> Flow:
        """Follow a table through an estimator that is not of skdp and not fitted, and may have parts of skdp."""
        before = len(self.promises)
        if is_search(estimator) and spends(estimator.estimator):
            made = self.visit(estimator.estimator, flow, path)
            self._repeat(before, self._planned_fits(estimator, before), step)
            self._searched(estimator, made, flow, before, step)
            if self._varies_privacy(estimator, estimator.estimator):
                self._see(flow.merged.raw, step)
            return made
        unknown = replace(flow.shuffled, has_target=False)
        for index, part in enumerate(
            part for part in parts_of(estimator) if spends(part)
        ):
            self.visit(
                part, unknown, _join(path or type(estimator).__name__, str(index))
            )
        self._repeat(before, None, step)
        return self._plain(estimator, flow, step)

    def _planned_fits(self, search: Any, start: int) -> int | None:
        """Return how many releases a search is going to make besides that of its last fit, at most, if it is known."""
        # How often the score of a candidate privatises rows is up to the scorer.
        if any(
            promise.protects is True and not promise.made_up
            for promise in self.promises[start:]
        ):
            return None
        if self._varies_privacy(search, search.estimator):
            return None
        return most_fits(search)

    def _varies_privacy(self, search: Any, estimator: Any) -> bool:
        """Whether candidates of a search may differ in what they spend, or in the columns that they use."""
        varied = searched_values(search).items()
        return any(
            self._is_private_parameter(estimator, name, values)
            for name, values in varied
        )

    def _is_private_parameter(
        self, estimator: Any, name: str, values: list[Any]
    ) -> bool:
        """Whether what an estimator spends, or the columns that it uses, may follow from one of its parameters."""
        # Fitted meta-estimators may have unfitted originals as parameters, so guarantees are not looked at here.
        first, _, rest = name.partition("__")
        inner = estimator.get_params().get(first)
        is_pipeline = is_a(
            estimator, "sklearn.pipeline.Pipeline", "imblearn.pipeline.Pipeline"
        )
        places = [step_name for step_name, _ in estimator.steps] if is_pipeline else []
        if first in places:
            concerned = [part for _, part in estimator.steps[places.index(first) + 1 :]]
            concerned += [] if rest else [inner, *values]
        elif not rest:
            concerned = [estimator, *values]
        elif is_a(
            estimator,
            "sklearn.compose.ColumnTransformer",
            "sklearn.pipeline.FeatureUnion",
        ):
            concerned = []
        else:
            others = [
                value
                for key, value in estimator.get_params(deep=False).items()
                if key != first
            ]
            concerned = [part for part in estimators_in(others) if part is not inner]
        if any(map(self._decides, estimators_in(concerned))):
            return True
        return bool(rest) and (
            not hasattr(inner, "get_params")
            or self._is_private_parameter(inner, rest, values)
        )

    def _decides(self, estimator: Any) -> bool:
        """Whether an estimator, or one of its parts, may spend something or choose columns by their names."""
        kinds = type(estimator).__mro__
        ours = type(estimator) in self._trusted or any(
            kind.__module__.partition(".")[0] == "skdp" for kind in kinds
        )
        chooses = any(kind.__name__ == "ColumnTransformer" for kind in kinds)
        return ours or chooses or any(map(self._decides, parts_of(estimator)))

    def _repeat(self, start: int, more: int | None, step: str) -> None:
        """Count releases that a step makes of parts that it does not store, or stored once for several."""
        promises = self.promises[start:]
        if not promises or more == 0:
            return
        if more is None:
            self.uncounted.append(step)
            self.notes.append(
                f"{step} fits estimators that it does not store, and each fit is a release. How much these lose is not "
                "known here, so that nothing is promised; only a ledger knows."
            )
            for promise in promises:
                self._see(promise.columns, step)
            return
        for place, promise in enumerate(promises, start):
            shuffled = (
                None
                if promise.shuffled is None
                else repeated(promise.shuffled, 1 + more)
            )
            guarantee = repeated(promise.guarantee, 1 + more)
            self.promises[place] = replace(
                promise, guarantee=guarantee, shuffled=shuffled
            )
        self.notes.append(
            f"{step} fits estimators that it does not store: each record is used in {more} further releases, so "
            f"epsilon of its steps is {1 + more} times that of one release."
        )

    def _meta(self, estimator: Any, flow: Flow, path: str, step: str) -> Flow:
        place, before = path or type(estimator).__name__, len(self.promises)
        fed = fed_parts(estimator)
        if fed is None:
            self.notes.append(
                f"{step} may fit what it is made of more often than is shown; only a ledger knows."
            )
            unknown = replace(flow.shuffled, has_target=False)
            for index, part in enumerate(
                part for part in parts_of(estimator) if self._promises(part)
            ):
                self.visit(part, unknown, _join(place, str(index)))
            return self._plain(estimator, flow, step)
        given = flow.shuffled if mixes_columns(estimator) else flow
        made = [
            self.visit(part, given, _join(place, str(index)))
            for index, part in enumerate(fed)
        ]
        self._repeat(before, more_uses(estimator), step)
        self._split(estimator, flow, before, step)
        if shows_rows(estimator):
            self.counted.append(step)
        targets = list(
            dict.fromkeys(
                name for promise in self.promises[before:] for name in promise.target
            )
        )
        if reads_classes(estimator):
            for name in targets:
                self.read.setdefault(name, []).append(step)
        # The combining estimator sees the predictions of the parts for the rows of `fit`.
        said = replace(
            flow.predicted(), columns=(Column.merged(part.merged for part in made),)
        )
        said = replace(said, curated=any(part.curated for part in made)).repeated(flow)
        if learns_from_predictions(estimator):
            self._scored(estimator, said, flow, step)
        if hasattr(estimator, "final_estimator_"):
            self.visit(
                estimator.final_estimator_, said, _join(place, "final_estimator_")
            )
        self._transform_target(estimator, targets, place, step)
        return said

    def _transform_target(
        self, estimator: Any, targets: list[Any], place: str, step: str
    ) -> None:
        """Follow the target through the transformer that a meta-estimator has for it."""
        transformer = getattr(estimator, "transformer_", None)
        if self._promises(transformer):
            name = targets[0] if targets else TARGET
            self.columns += [] if name in self.columns else [name]
            self.visit(transformer, Flow.start([name]), _join(place, "transformer_"))
            if not targets:
                self._see(
                    [name], step
                )  # the model may have learnt from the true target
        elif not (_passes(transformer) or learns_nothing(transformer)):
            self._learn_target(step)

    def _scored(self, estimator: Any, made: Flow, flow: Flow, step: str) -> None:
        """Record a step that learns from predictions of its parts for the rows of `fit`."""
        self._see(made.repeated(flow).merged.raw, step)
        if learns_target(estimator):
            self._learn_target(step)

    def _split(self, estimator: Any, flow: Flow, start: int, step: str) -> None:
        """Record a step that splits the rows by their target, so that one target moves other rows."""
        if not splits_by_target(estimator) or flow.new_target:
            return
        self._learn_target(step)
        if any(promise.target for promise in self.promises[start:]):
            self.notes.append(
                f"{step} splits the rows by their target: the target of one record decides in which part other records "
                "are. So nothing is promised of the target; a promise about columns of X is for the same targets."
            )

    def _learn_target(self, step: str) -> None:
        if step not in self.from_target:
            self.from_target.append(step)

    def finish(self) -> None:
        """Void guarantees about the target if a step learns the true target."""
        for step in self.from_target:
            self._see(self.targets, step)

    def shows_records(self, leaving: Iterable[Any]) -> bool:
        """Whether it shows which records there are, or how many: then a guarantee is for replacing one."""
        released = [
            self.seen,
            self.unfitted,
            self.read,
            self.from_target,
            self.counted,
            list(leaving),
        ]
        return any(released) or any(
            promise.guarantee.relation == "replace" for promise in self.promises
        )

    def _see(self, names: Iterable[Any], step: str) -> None:
        for name in names:
            steps = self.seen.setdefault(name, [])
            if step not in steps:
                steps.append(step)

    def _plain(self, estimator: Any, flow: Flow, step: str) -> Flow:
        raw = flow.merged.raw
        if learns_nothing(estimator):
            return flow.spread(flow.merged, estimator)
        if not is_fitted(estimator):
            for name in raw:
                self.unfitted.setdefault(name, []).append(step)
        else:
            self._see(raw, step)
        if learns_target(estimator) and not flow.new_target:
            self._learn_target(step)
        if takes_weights(estimator):
            self.weighted.append(step)
        if not raw:
            self.after.append(step)
        if hasattr(estimator, "fit_resample"):
            return replace(flow, curated=flow.curated or bool(raw))
        if not hasattr(estimator, "transform"):
            return flow.predicted()
        return flow.spread(flow.merged, estimator, curated=bool(raw))


def _can_be_for_replacing(guarantee: PrivacyGuarantee) -> bool:
    """Whether a promise for replacing a record follows; twice a large delta is none."""
    try:
        guarantee.to("replace")
    except ValueError:
        return False
    return True


def _doubled(guarantee: PrivacyGuarantee, converted: PrivacyGuarantee) -> str:
    """Say what replacing a record costs where adding or removing one is promised."""
    return (
        f"{amounts(guarantee)} for adding or removing a record is "
        f"{amounts(converted)} for replacing one, which is both"
    )


def _target_name(name: Any, columns: frozenset[Any]) -> Any:
    """Return the name of a target, which is not that of a column."""
    if name not in columns:
        return name
    return "target" if "target" not in columns else TARGET


def _join(path: str, name: str) -> str:
    return f"{path} / {name}" if path else str(name)


def _passes(part: Any) -> bool:
    """Whether a step passes its columns on unchanged, as declared, or as replaced by `fit`."""
    identity = (
        is_a(part, "sklearn.preprocessing.FunctionTransformer") and part.func is None
    )
    return identity or part is None or (isinstance(part, str) and part == "passthrough")


def _protects(estimator: Any, guarantee: PrivacyGuarantee) -> Protects:
    """Return whether the rows that an estimator returns are protected; those of a wrapper may be at fit only."""
    said = getattr(estimator, "protects_rows", None)
    if _named(estimator) is not None:
        return True
    if said is not None:
        return "fit" if said == "fit" else bool(said)
    if hasattr(estimator, "fit_resample") and not hasattr(estimator, "transform"):
        return "fit"
    return guarantee.trust != "central"


def _named(estimator: Any) -> tuple[Any, ...] | None:
    """Return the columns that an estimator protects in the rows that it returns, if it names them."""
    said = getattr(estimator, "protects_rows", None)
    return tuple(said) if isinstance(said, list | tuple) else None
