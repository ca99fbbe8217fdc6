"""Constraints and derived columns of the domain hold in all synthetic rows."""

import io
import pickle

import numpy as np
import pandas as pd
import pytest

from skdp import Domain, DPMarginalSynthesizer, Interval, PrivacyLedger, SyntheticResampler, privacy_statement
from skdp.testing import replay_release
from tests.conftest import counted_draws, quick_first
from tests.errors import refusal
from tests.synthesis.bounds import bounds_only

N = 1_000


def people(n_rows=N, seed=0):
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 30, n_rows)
    sex = rng.choice(["f", "m"], n_rows)
    table = pd.DataFrame(
        {
            "start": start,
            "total": 0,
            "end": start + rng.integers(0, 5, n_rows),
            "sex": sex,
            "wage": np.round(rng.uniform(0, 50, n_rows), 1),
            "pregnant": np.where((sex == "f") & (rng.random(n_rows) < 0.3), "yes", "no"),
        }
    )
    return table.assign(total=table["wage"] + table["start"])


COLUMNS = {
    "start": Interval(0, 30),
    "end": Interval(0, 35),
    "sex": ["f", "m"],
    "wage": Interval(0, 50, decimals=1),
    "pregnant": ["yes", "no"],
}
DOMAIN = Domain(
    COLUMNS,
    constraints=["end >= start", "not (sex == 'm' and pregnant == 'yes')"],
    derived={"total": "wage + start", "late": "end > 20"},
)


def fit_model(table=None, domain=DOMAIN, epsilon=5.0, **parameters):
    given = {"delta": 1e-6, "random_state": 0}
    return DPMarginalSynthesizer(epsilon, domain=domain, **given | parameters).fit(people() if table is None else table)


def require_valid(rows):
    assert DOMAIN.check_constraints(rows).all()
    np.testing.assert_allclose(rows["total"], rows["wage"] + rows["start"], rtol=1e-12)
    if "late" in rows:
        assert ((rows["end"] > 20) == rows["late"]).all()


@pytest.mark.filterwarnings("ignore:Noise hides")
@pytest.mark.parametrize(("epsilon", "bins"), quick_first(1, [(0.1, "found"), (10.0, "declared")]))
def test_constraints_hold_in_all_rows(bins, epsilon):
    synthesizer = fit_model(domain=bounds_only(DOMAIN, bins), epsilon=epsilon)
    rows = synthesizer.sample(1_000)
    assert list(rows) == ["start", "total", "end", "sex", "wage", "pregnant", "late"]
    require_valid(rows)
    for made in (synthesizer.transform(people(50)), synthesizer.sample(100)):
        require_valid(made)
    assert list(synthesizer.transform(people(50))) == list(people())
    assert sum(len(batch) for batch in synthesizer.sample_batches(500, batch_size=200)) == 500
    file = io.BytesIO()
    synthesizer.save(file)
    file.seek(0)
    for copy in (DPMarginalSynthesizer.load(file), pickle.loads(pickle.dumps(synthesizer))):
        require_valid(copy.sample(200))
        assert list(copy.sample(5)) == list(rows)


@pytest.mark.long
@pytest.mark.parametrize("library", ["lazy", "polars", "pyarrow"])
def test_constraints_hold_in_other_libraries(library):
    module = pytest.importorskip("pyarrow" if library == "pyarrow" else "polars")
    frame = module.Table.from_pandas(people()) if library == "pyarrow" else module.DataFrame(people())
    rows = fit_model(frame.lazy() if library == "lazy" else frame).sample(500)
    require_valid(rows.to_pandas())


def test_derived_columns_are_not_read():
    table = people()
    fitted = fit_model(table)
    made = fitted.sample(200)
    pd.testing.assert_frame_equal(fit_model(table.assign(total="text")).sample(200), made)
    without = fit_model(table.drop(columns="total")).sample(200)
    pd.testing.assert_frame_equal(without[list(made)], made)
    assert fitted.guarantee_.scope == tuple(table)
    assert privacy_statement(fitted).unprotected_columns == []


def test_uncomputable_derived_column_raises_before_charge():
    domain = Domain(COLUMNS, derived={"total": "wage + start", "twice": "2 * total"})
    with refusal(ValueError, r"X has derived columns \['total'\], but lacks columns") as ledger:
        fit_model(people().drop(columns="wage"), domain, ledger=ledger)
    without = people().drop(columns=["wage", "total"])
    assert list(fit_model(without, domain).sample(5)) == list(without)


def test_target_beside_an_array_satisfies_constraints():
    table = people()[["start", "end"]].to_numpy()
    names = {"x0": COLUMNS["start"], "target": COLUMNS["end"]}
    domain = Domain(names, constraints=["target >= x0"], derived={"stay": "target - x0"})
    synthesizer = DPMarginalSynthesizer(5.0, domain=domain, random_state=0).fit(table[:, :1], table[:, 1])
    start, stay, end = synthesizer.sample(500).T
    assert (end >= start).all()
    assert (stay == end - start).all()


@pytest.mark.filterwarnings("ignore:Noise hides")
def test_impossible_pairs_of_values_are_not_in_the_model():
    synthesizer = fit_model(epsilon=0.1)
    assert synthesizer.count({"sex": "m", "pregnant": "yes"}) == 0


def test_resampled_target_satisfies_constraints():
    table = people()
    resampler = SyntheticResampler(DPMarginalSynthesizer(5.0, domain=DOMAIN, random_state=0))
    rows, target = resampler.fit_resample(table.drop(columns="pregnant"), table["pregnant"])
    require_valid(rows.assign(pregnant=target))


def test_unsatisfiable_domain_raises_before_charge():
    ledger = PrivacyLedger(epsilon=10, delta=1e-3)
    domain = Domain(COLUMNS, constraints=["sex == 'f'", "not sex == 'f'"], derived={"total": "wage + start"})
    with counted_draws() as drawn, pytest.raises(ValueError, match="exclude all combinations of declared values"):
        fit_model(domain=domain, ledger=ledger)
    assert (drawn[0], ledger.spent) == (0, (0, 0))


def test_unsatisfiable_constraints_on_numbers_raise_an_error(few_rounds):
    domain = Domain(COLUMNS, constraints=["end > start + 100"], derived=DOMAIN.derived)
    synthesizer = fit_model(domain=domain)
    with pytest.raises(ValueError, match="must be satisfied by some rows of the model"):
        synthesizer.sample(10)


def test_rows_that_violate_constraints_are_not_searched():
    """It is private whether a record violates a constraint."""
    table = people(60)
    neighbor = pd.concat([table, table.iloc[:1].assign(end=0, start=20, sex="m", pregnant="yes")])
    release = DPMarginalSynthesizer(1.0, domain=DOMAIN, marginals=[("sex", "pregnant")])
    replay = replay_release(release, table, neighbor)
    assert replay.passed, replay.findings


@pytest.mark.filterwarnings("ignore:Constraint .* is false where")
def test_missing_values_satisfy_no_comparison():
    columns = COLUMNS | {"end": Interval(0, 35, missing=True)}
    table = people().drop(columns="total")
    table["end"] = table["end"].where(np.arange(N) % 3 > 0)
    rows = fit_model(table, Domain(columns, constraints=["end >= start"])).sample(500)
    assert rows["end"].notna().all()
    rows = fit_model(table, Domain(columns, constraints=["not end < start"])).sample(1_000)
    assert rows["end"].isna().mean() == pytest.approx(1 / 3, abs=0.1)
