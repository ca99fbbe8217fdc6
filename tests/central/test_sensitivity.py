"""Change by a record or a person in sums between bounds, replayed on all small tables, and the spent budget."""

import itertools
import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import skdp
from skdp import DPGaussianNB, DPGroupBy, DPMean, DPStandardScaler
from skdp.central.statistics import Noise, choose
from skdp.privacy import Mu, parse_budget
from skdp.testing import replay_release
from tests.testing.central_releases import fit_model

MU = Mu(0.5, delta=1e-6)
WIDE = {"bounds": (0, 2)}
KEYS = {"keys": {"a": [0], "b": [0, 1]}, "by": ["a", "b"], "statistics": ["mean", "sum", "count"]}
# Values of a column: at the center of the bounds 0 and 2, at a bound, beyond both, and missing.
NUMBERS = [{"x": value} for value in (1.0, 2.0, -3.0, math.nan)]
PAIRS = [{"x": one, "y": other} for one, other in itertools.combinations_with_replacement((0.0, 50.0, math.nan), 2)]
# Unknown keys and missing values.
GROUPED = [{"a": 0, "b": b, "x": x} for b, x in itertools.product((0, 1), (0.0, math.inf, math.nan))]
GROUPED += [{"a": 2, "b": 0, "x": 0.0}]
CLASSED = [{"x": x, "y": y} for x, y in itertools.product((0.0, 2.0, 50.0), (0, 1))]
RELEASES = {
    "mean": (DPMean(**WIDE), NUMBERS),
    "means": (DPMean(MU, **WIDE), PAIRS),
    "scales": (DPStandardScaler(**WIDE), NUMBERS),
    "several scales": (DPStandardScaler(MU, **WIDE), PAIRS),
    "groups": (DPGroupBy(**KEYS, **WIDE, handle_unknown="ignore"), GROUPED),
    "groups, mu": (DPGroupBy(MU, **KEYS, **WIDE, handle_unknown="ignore"), GROUPED),
    "classes": (DPGaussianNB(**WIDE, classes=[0, 1]), CLASSED),
    "classes, mu": (DPGaussianNB(MU, **WIDE, classes=[0, 1]), CLASSED),
}


@pytest.mark.usefixtures("few_cells")
@pytest.mark.filterwarnings("ignore:The noise:UserWarning")  # there are few rows
@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("name", RELEASES)
def test_noise_covers_a_record_or_a_person_exactly(name, persons):
    """Each record, the first one without others; a third of the persons with two rows, and another person."""
    model, records = RELEASES[name]
    model = clone(model).set_params(max_rows_per_person=1 + persons)
    used = []
    persons_rows = itertools.combinations_with_replacement(records, 1 + persons)
    for index, rows in enumerate(itertools.islice(persons_rows, 0, None, 1 + 2 * persons)):
        others = records[: 1 if persons else index % 2]
        table = pd.DataFrame([*others, *rows])
        if persons:
            table["person"] = [1, 2, 2]
        replay = replay_release(partial(fit_model, model), table, table[: len(others)])
        assert replay.passed, replay.findings
        used.append(replay.epsilon / replay.guarantee.epsilon)
    # A sample of the persons may not have the largest difference of two scores of a search of limits.
    assert max(used) == pytest.approx(1, rel=0.05 if persons and model._finds_limits_within else 1e-9)


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.7), (1e9, 1e9 + 2), (-1e-300, 1e-300), (-8e307, 8e307)])
def test_values_beyond_the_bounds_are_clipped(low, high):
    rows = np.array([[low, high, -np.inf, np.inf]] * 1_000)
    found = DPMean(1e9, bounds=(low, high)).fit(rows).mean_
    assert found == pytest.approx([low, high, low, high], rel=1e-6, abs=1e-6 * (high / 2 - low / 2))
    assert (found >= low).all()
    assert (found <= high).all()


SPENDING = [
    skdp.DPMean(),
    skdp.DPPCA(),
    skdp.DPStandardScaler(),
    skdp.DPSimpleImputer(),
    skdp.DPTargetEncoder(categories=[[0, 1]] * 3, bounds=(0, None)),
    skdp.DPGaussianNB(classes=[0, 1]),
    skdp.DPLinearRegression(),
]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of noise and limits
@pytest.mark.parametrize(
    ("model", "epsilon"), [*itertools.product(SPENDING, [1.0, MU]), (skdp.DPLogisticRegression(classes=[0, 1]), MU)]
)
def test_noises_and_choices_of_a_fit_spend_its_whole_budget(model, epsilon, monkeypatch):
    spent = []

    def record_noise(self, source, n, size, draw=Noise.draw_each):
        spent.append(self.amount)
        return draw(self, source, n, size)

    def record_choice(source, scores, budget, sensitivity):
        spent.append(budget.amount)
        return choose(source, scores, budget, sensitivity)

    monkeypatch.setattr(Noise, "draw_each", record_noise)
    monkeypatch.setattr("skdp.central._limits.choose", record_choice)
    rows = np.random.default_rng(0).integers(0, 2, (300, 4))
    clone(model).set_params(epsilon=epsilon, random_state=0).fit(rows[:, :3], rows[:, 3])
    assert sum(spent) == parse_budget(epsilon).amount
