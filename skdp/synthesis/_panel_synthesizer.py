"""Synthetic persons with several rows in the order of time, from a model of each row given the one before."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import combinations
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from skdp.base import SITE, OnSite, all_or_nothing, level_of_the_caller, read_input
from skdp.central.statistics import is_ordered, number_values
from skdp.domain import Domain
from skdp.frames import Table, is_frame
from skdp.oracles import check_size
from skdp.privacy import PrivacyGuarantee
from skdp.synthesis._rows import check_n_samples
from skdp.synthesis._synthesizer import DPMarginalSynthesizer
from skdp.synthesis.model import MOST_REDRAWN, GraphicalModel, redraw
from skdp.synthesis.tables import (
    assemble,
    check_decodable,
    decode,
    lag,
    public_template,
    read_codes,
    read_declared,
)
from skdp.typing import ColumnLike, ColumnName, TableLike

VISIT, LAST = "visit", "last"
_SET_HERE = ("workload", "target", "structural_zeros", "max_rows_per_person", "bins", "discover", "redraw")
_MOST_VISITS = 1_000
_FINE = 32
"""The least number of values from which it is modelled whether a column keeps its value: its pair has 1,000 cells."""


class DPPanelSynthesizer(MetaEstimatorMixin, OnSite, BaseEstimator):
    """Draw synthetic persons with several rows each, such as visits, in the order of time.

    A row is modelled together with the row before of the same person; a synthetic person is drawn visit by visit, each
    given the one before.

    Parameters
    ----------
    synthesizer : DPMarginalSynthesizer
        Cloned; the original is never fitted. Its `epsilon`, `delta`, `ledger` and `random_state` hold for the whole
        table, and its `domain` declares all columns but `person` and `time`. `workload`, `target`, `structural_zeros`,
        `max_rows_per_person`, `bins`, `discover` and `redraw` must have their defaults, and `marginals` be a name.
    person : column name
        The column that says whose row it is.
    time : column name
        The column of numbers, dates or times that puts the rows of a person in order.
    max_visits : int
        The most visits of one person, from 1 to 1,000: the first ones are kept. All noise is in proportion to it.

    Attributes
    ----------
    synthesizer_ : DPMarginalSynthesizer
        The fitted clone. Its columns are the number of the ``"visit"``, whether it is the person's ``"last"`` one, the
        codes of each column (places in `domain_`), those of the visit before as ``"previous NAME"``, where -1 is that
        there was none, and whether both are the same as ``"kept NAME"``, for columns of at least 32 values.
    domain_ : Domain
        The values of the columns, without those of person and time.
    guarantee_ : PrivacyGuarantee
        The guarantee of the last `fit`.
    n_persons_, n_persons_std_error_ : float
        The estimated number of persons, from the noisy counts, and its standard deviation.
    n_features_in_ : int
        The number of columns of X.
    feature_names_in_ : ndarray of str
        Their names, if all of them are strings.

    See Also
    --------
    DPMarginalSynthesizer : Rows that are not in an order; with ``groups``, several of a person.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a person with all their
    rows changes the law of all that is released by at most ``(epsilon, delta)``: which visits are kept, and what was
    before each, depends on the rows of this person alone, so a person changes at most `max_visits` rows of the table
    that is modelled, and the guarantee is that of the synthesizer with ``max_rows_per_person=max_visits``. The number
    of persons, how many visits each has, and the times are protected too; of the times nothing but the order is used.
    Samples are post-processing: free, and repeatable. Not covered: that an error shows an undeclared value, a missing
    person or time, or two rows of a person at the same time; and the library of X and its family of dtypes.

    **What is kept.** The pairs of each column with itself at the visit before, of columns at the same visit, of each
    column with the number of the visit, what makes a visit the last one, and how often columns of at least 32 values,
    whose pairs may be too large, keep theirs, as far as the noisy counts show them: what
    depends on more than one visit before is lost, and so are the times between visits. The counts of a visit that is
    drawn after others are not those of the model itself, as errors add up from visit to visit. Pairs of one visit are
    less accurate than in rows without an order: with few persons or a small epsilon, do without it if it does not
    matter. `skdp.save` does not take this class; it can be pickled.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import DPMarginalSynthesizer
    >>> from skdp.synthesis import DPPanelSynthesizer
    >>> visits = pd.DataFrame({"patient": [1, 1, 1, 2, 2, 3] * 500, "day": [3, 9, 20, 2, 5, 8] * 500})
    >>> visits["patient"] += 3 * (visits.index // 6)
    >>> visits["state"] = ["ill", "ill", "well", "ill", "well", "well"] * 500
    >>> inner = DPMarginalSynthesizer(3.0, delta=1e-6, domain={"state": ["ill", "well"]}, random_state=0)
    >>> panel = DPPanelSynthesizer(inner, person="patient", time="day", max_visits=3).fit(visits)
    >>> panel.sample(3)
       patient  visit state
    0        0      1  well
    1        1      1  well
    2        2      1   ill
    3        2      2   ill
    4        2      3  well
    >>> abs(panel.n_persons_ - 1_500) < 4 * panel.n_persons_std_error_
    True
    """

    _doc_link_template = f"{SITE}/api/generated/skdp.synthesis.{{estimator_name}}.html"

    def __init__(
        self, synthesizer: DPMarginalSynthesizer, *, person: ColumnName, time: ColumnName, max_visits: int
    ) -> None:
        self.synthesizer = synthesizer
        self.person = person
        self.time = time
        self.max_visits = max_visits

    def fit(self, X: TableLike, y: ColumnLike | None = None) -> Self:
        """Measure a table of visits, and fit a model of each visit given the one before.

        Parameters
        ----------
        X : dataframe
            A row for each visit, in any order: a pandas, polars or pyarrow table.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted synthesizer.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, a column is absent, the domain is not declared, the model would have too
            many cells, a person or a time is missing, or a person has two rows at the same time.
        BudgetExceeded
            If the ledger of the synthesizer does not cover it.

        Warns
        -----
        UserWarning
            If what a column has to do with the visit before was not measured.
        """
        if lost := self._fit(X):  # outside of what is undone if warnings are errors
            warnings.warn(
                f"what the columns {lost} have to do with the visit before was not measured: not worth the noise at "
                "this epsilon, or the model would exceed max_cells. They are drawn as if it had no effect of its own",
                UserWarning,
                stacklevel=level_of_the_caller(),
            )
        return self

    @all_or_nothing
    def _fit(self, X: Any) -> list[str]:
        """Fit; return the columns whose visit before was not measured."""
        most = check_size(self.max_visits, name="max_visits", least=1, most=_MOST_VISITS)
        inner = _check_synthesizer(self.synthesizer)
        if not is_frame(X):
            raise TypeError(f"X must be a dataframe, as person and time name its columns; got {type(X).__name__}")
        table = read_input(self, X, reset=True, least=0)
        columns = dict(zip(table.names, table.columns, strict=True))
        persons, times = self._read_order(columns)
        # Without the columns of X, the names of a template's frame are those that it is assembled with.
        native = X.iloc[:, :0] if isinstance(X, pd.DataFrame) else X
        table = Table(tuple(columns), tuple(columns.values()), native)
        domain = read_declared(table, inner.domain)
        template = public_template(table, domain)
        check_decodable(template, domain)
        codes = read_codes(table, domain, inner.handle_unknown)
        declared = np.logical_and.reduce([code < size for code, size in zip(codes, domain.sizes, strict=True)])
        try:
            lagged = lag([code[declared] for code in codes], persons[declared], times[declared], most)
        except ValueError as error:
            raise ValueError(f"column {self.time!r} {error}") from None
        fine = [place for place, size in enumerate(domain.sizes) if size >= _FINE]
        width = len(domain.columns)
        lagged += [(lagged[2 + place] + 1 == lagged[2 + width + place]).astype(np.intp) for place in fine]
        values = _values(domain, most, fine)
        frame = {
            name: pd.Categorical.from_codes(code, pd.Index(labels))
            for (name, labels), code in zip(values.items(), lagged, strict=True)
        }
        names = [(name, f"previous {name}") for name in map(str, domain.columns)]
        tied = [names[place] for place in fine]
        inner.set_params(
            domain=values,
            workload=_workload(names, tied),
            structural_zeros=_zeros(values, names, tied, most),
            max_rows_per_person=most,
            max_cells=min(check_size(inner.max_cells, name="max_cells"), MOST_REDRAWN),
            handle_unknown="error",
        )
        with warnings.catch_warnings():
            # The workload is not one that a user named.
            warnings.filterwarnings("ignore", r"\d+ of \d+ marginals of the workload are not measured", UserWarning)
            self.synthesizer_ = inner.fit(pd.DataFrame(frame))
        found = inner.count_estimate({VISIT: 1})
        self.n_persons_, self.n_persons_std_error_ = found.count, found.std_error
        self.domain_ = domain
        self._template = template
        measured = [set(clique) for clique in inner.selected_cliques_]
        ties = [({name, before}, {name, f"kept {name}"}, {before, f"kept {name}"}) for name, before in names]
        lost = [
            name
            for (name, _), pairs in zip(names, ties, strict=True)
            if not any(pair <= clique for pair in pairs for clique in measured)
        ]
        return lost if most > 1 else []

    def _read_order(self, columns: dict[Any, Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Take the columns of persons and times out of a table, and number them."""
        if self.person == self.time:
            raise ValueError(f"person and time must be two columns, got {self.person!r} for both")
        for parameter in ("person", "time"):
            name = getattr(self, parameter)
            if name not in columns:
                raise ValueError(f"{parameter} must be a column of X, got {name!r}; X has {list(columns)}")
        person, time = columns.pop(self.person), columns.pop(self.time)
        if not columns:
            raise ValueError("X has no column beside those of person and time")
        dtype = nw.from_native(time, series_only=True).dtype
        if not (dtype.is_numeric() or dtype.is_temporal()):
            raise TypeError(
                f"column {self.time!r} must have a dtype of numbers, dates or times: text has another order"
            )
        taken = {VISIT, self.person} & columns.keys()
        if taken or self.person == VISIT:
            raise ValueError(
                f"synthetic rows have a column {VISIT!r} for the number of the visit; give yours another name"
            )
        numbers = []
        for name, column in ((self.person, person), (self.time, time)):
            numbers.append(number_values(column, f"column {name!r}", sort=name == self.time))
            if (numbers[-1] < 0).any():
                raise ValueError(f"column {name!r} holds a missing value: every row must have a person and a time")
        return numbers[0], numbers[1]

    @property
    def guarantee_(self) -> PrivacyGuarantee:  # numpydoc ignore=RT01
        """What is promised to each person of the table that `fit` got."""
        return self.synthesizer_.guarantee_

    def sample(self, n_persons: int | None = None) -> Any:
        """Draw synthetic persons.

        Parameters
        ----------
        n_persons : int, optional
            How many, at least 0; by default the estimated number.

        Returns
        -------
        same kind as X of `fit`
            A row for each visit, ordered: the number of the person from 0, under the name of the column of persons; the
            number of the visit from 1, as ``"visit"``; and the columns of `domain_`. Each call draws new persons.

        Raises
        ------
        TypeError, ValueError
            If the number is no integer, or negative.
        """
        check_is_fitted(self)
        check_n_samples(n_persons, "n_persons")
        n = round(self.n_persons_) if n_persons is None else int(n_persons)
        rng = self.synthesizer_._generator("panel", self.synthesizer_._calls.advance())
        most = len(self.synthesizer_.domain_[VISIT])
        fine = [place for place, size in enumerate(self.domain_.sizes) if size >= _FINE]
        person, visit, *codes = _draw_visits(self.synthesizer_.model_, n, most, len(self.domain_.columns), fine, rng)
        columns = decode(self._template, self.domain_, codes, rng)
        names = (self.person, VISIT, *self.domain_.columns)
        return assemble(self._template, (person, visit + 1, *columns), names)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_template")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if isinstance(self.synthesizer, DPMarginalSynthesizer):
            tags.input_tags = get_tags(self.synthesizer).input_tags
        return tags


def _check_synthesizer(synthesizer: Any) -> DPMarginalSynthesizer:
    """Return a clone of the synthesizer, all of whose parameters can be used."""
    if not isinstance(synthesizer, DPMarginalSynthesizer):
        kind = synthesizer.__name__ if isinstance(synthesizer, type) else type(synthesizer).__name__
        raise TypeError(f"synthesizer must be a DPMarginalSynthesizer, got {kind}")
    defaults = DPMarginalSynthesizer().get_params()
    changed = [name for name in _SET_HERE if getattr(synthesizer, name) is not defaults[name]]
    changed = [name for name in changed if getattr(synthesizer, name) != defaults[name]]
    if changed:
        raise ValueError(f"the synthesizer of a panel must leave these parameters at their defaults: {changed}")
    if not isinstance(synthesizer.marginals, str):
        raise ValueError("marginals of the synthesizer of a panel must be a name, not a list")
    own: DPMarginalSynthesizer = clone(synthesizer)
    return own


def _values(domain: Domain, most: int, fine: Sequence[int]) -> dict[str, list[Any]]:
    """Declare the columns of the lagged table, in which values are codes."""
    values: dict[str, list[Any]] = {VISIT: list(range(1, most + 1)), LAST: ["no", "yes"]}
    for first, prefix in ((0, ""), (-1, "previous ")):
        for name in domain.columns:
            codes = range(first, len(domain[name]))
            # Text has no order of values.
            values[f"{prefix}{name}"] = list(codes if is_ordered(domain[name]) else map(str, codes))
    values |= {f"kept {domain.columns[place]}": ["no", "yes"] for place in fine}
    if len(values) < 2 + 2 * len(domain.columns) + len(fine):
        raise ValueError(
            f"the names of the columns must differ from {VISIT!r}, from {LAST!r}, and from one another with "
            "'previous ' or 'kept ' before them; rename a column"
        )
    return values


def _workload(names: list[tuple[str, str]], fine: list[tuple[str, str]]) -> list[tuple[str, ...]]:
    """List the marginals that matter."""
    # Without pairs of the visit before, what two of its columns say together would count twice.
    pairs = [pair for visit in zip(*names, strict=True) for pair in combinations(visit, 2)]
    ends = [(other, name) for name, _ in names for other in (VISIT, LAST)]
    kept: list[tuple[str, ...]] = [
        (other, f"kept {name}") for name, before in fine for other in (VISIT, LAST, name, before)
    ]
    # What follows from a column is kept with it: else it would be kept as often where the column is not.
    kept += [(*pair, f"kept {name}") for name, _ in fine for pair in names if pair not in fine]
    both = list(combinations((f"kept {name}" for name, _ in fine), 2))
    return [(VISIT, LAST), *names, *pairs, *ends, *kept, *both]


def _zeros(
    values: dict[str, list[Any]], names: list[tuple[str, str]], fine: list[tuple[str, str]], most: int
) -> list[dict[str, Any]]:
    """Exclude that a first visit has one before, and that another has none."""
    zeros: list[dict[str, Any]] = []
    for _, before in names:
        none, *some = values[before]
        zeros.append({VISIT: 1, before: some})
        if most > 1:
            zeros.append({VISIT: list(range(2, most + 1)), before: none})
    return zeros + [{VISIT: 1, f"kept {name}": "yes"} for name, _ in fine]


def _draw_visits(
    model: GraphicalModel, n: int, most: int, width: int, fine: Sequence[int], rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Draw persons visit by visit; return person, visit and codes of all rows, in order."""
    rows = np.zeros((2 + 2 * width + len(fine), n), np.int64)
    now = [*range(1, 2 + width), *range(2 + 2 * width, len(rows))]
    persons = np.arange(n)
    drawn = []
    for visit in range(most):
        rows[0] = visit
        rows[now] = redraw(model, rows, now, rng)
        _keep(model, rows, width, fine, rng)
        drawn.append(np.vstack([persons, rows[0], rows[2 : 2 + width]]))
        stay = rows[1] == 0
        persons, rows = persons[stay], rows[:, stay]
        rows[2 + width : 2 + 2 * width] = rows[2 : 2 + width] + 1
    together = np.concatenate(drawn, axis=1)
    return list(together[:, np.argsort(together[0], kind="stable")])


def _keep(
    model: GraphicalModel, rows: NDArray[np.int64], width: int, fine: Sequence[int], rng: np.random.Generator
) -> None:
    """Give fine columns that keep their value that of the visit before, and draw the others again, given these."""
    kept = rows[2 + 2 * width :]
    for pattern in np.unique(kept, axis=1).T:
        fixed = [2 + place for place, keeps in zip(fine, pattern, strict=True) if keeps]
        if fixed:
            inside = (pattern == kept.T).all(axis=1)
            part = rows[:, inside]
            part[fixed] = part[[place + width for place in fixed]] - 1
            others = [place for place in range(1, 2 + width) if place not in fixed]
            part[others] = redraw(model, part, others, rng)
            rows[:, inside] = part
