"""Numbers with noise, batch by batch: `NumericPerturber` on every engine."""

import pickle
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from scipy.stats import chi2

from skdp import BudgetExceeded, NumericPerturber, PrivacyLedger
from skdp.engines import estimate_file, privatize, privatize_file, tally, tally_batches
from skdp.engines._batch_release import Release
from skdp.engines._randomness import BLOCK_ROWS, KeyedRandomness, Place, SeededRandomness
from skdp.local import SecretKey

BOUNDS = {"age": (0, 100), "height": (1.0, 2.5)}
MECHANISMS = ["optimal", "square_wave", "distribution", "laplace"]
ROWS, N = 2 * BLOCK_ROWS + 900, BLOCK_ROWS + 900


def perturber(**params):
    return NumericPerturber(**{"epsilon": 2.0, "bounds": BOUNDS, "random_state": 0, "grid_size": 64} | params)


@cache
def numbers(rows=N):
    draws = np.random.default_rng(1)
    return pa.table(
        {"age": draws.integers(-5, 120, rows), "height": draws.uniform(1, 2.5, rows), "number": np.arange(rows)}
    )


def only(table):
    return table.select(list(BOUNDS))


def test_a_seeded_release_is_the_same_on_every_engine(engine):
    expected = privatize(numbers(), perturber())
    found = engine.table(privatize(engine.frame(numbers()), perturber()))
    if engine.name == "spark":
        return  # it numbers no rows
    assert found.to_pydict() == expected.to_pydict()
    assert {str(kind) for kind in found.schema.types} == {"double"}


def test_reports_are_tallied_on_every_engine(engine):
    fitted = perturber()
    released = engine.table(privatize(engine.frame(numbers()), fitted, keep=["number"]))
    assert released["number"].to_pylist() == numbers()["number"].to_pylist()
    found = tally(engine.frame(released), fitted)
    assert found == fitted.tally(only(released))
    assert found.n_reports == N
    pd.testing.assert_frame_equal(fitted.estimate_mean(found), fitted.estimate_mean(only(released)))
    estimates = [fitted.estimate_distribution(reports, n_bins=4) for reports in (found, only(released))]
    pd.testing.assert_frame_equal(*estimates)


def test_streams_are_tallied_too():
    fitted = perturber()
    released = privatize(numbers(), fitted)
    batches = [released.slice(0, 0), released.slice(0, 7).to_pandas(), released.slice(7)]
    assert tally_batches(iter(batches), fitted) == fitted.tally(released)
    with pytest.raises(ValueError, match="0 sample"):
        tally_batches([], fitted)


def released(frame, fitted, cuts):
    release = Release(fitted.protocol_, [], SeededRandomness(fitted.randomness(call=0)))
    edges = [0, *cuts, len(frame)]
    return pd.concat([release(frame[start:stop], Place(first=start)) for start, stop in pairwise(edges)])


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_seeded_reports_of_a_row_depend_on_no_other_row_and_no_cut(mechanism):
    frame = only(numbers(ROWS)).to_pandas()
    fitted = perturber(mechanism=mechanism).fit(frame)
    whole = released(frame, fitted, [])
    for cuts in ([1], [BLOCK_ROWS], [7, 7, BLOCK_ROWS - 1, BLOCK_ROWS + 1], [3_000, 6_000, ROWS - 1]):
        pd.testing.assert_frame_equal(released(frame, fitted, cuts), whole)
    changed = np.arange(ROWS) % 3 == 0
    other = frame.astype(float)
    other.loc[changed] = 1.5
    pd.testing.assert_frame_equal(released(other, fitted, [])[~changed], whole[~changed])


def keyed(number=0):
    return KeyedRandomness(SecretKey(bytes([number]) * 32))


def test_a_batch_that_is_drawn_again_has_the_same_reports():
    frame = only(numbers(5_000)).to_pandas()
    release = Release(perturber(random_state=None).fit(frame).protocol_, [], KeyedRandomness())
    again = pickle.loads(pickle.dumps(release))
    pd.testing.assert_frame_equal(release(frame, Place(3)), again(frame, Place(3)))


def test_another_key_place_or_row_has_coins_of_its_own():
    """Equal numbers everywhere, so that equal coins would be equal reports: false alarm 2**-5000."""
    same = pd.DataFrame({"age": [50.0] * 5_000, "height": [50.0] * 5_000})
    fitted = perturber(mechanism="laplace", epsilon=0.1, bounds=(0, 100), grid_size=1, random_state=None).fit(same)
    other, longer = same.copy(), pd.concat([same, same[:1]])
    other.loc[4_999, "height"] = 50.001
    seen = []
    for frame, coins, place in [
        (same, keyed(), Place()),
        (same, keyed(1), Place()),
        (same, keyed(), Place(0)),
        (same, keyed(), Place(None, 1)),
        (other, keyed(), Place()),  # a number that is another one by a hundredth of a step, in the last row
        (longer, keyed(), Place()),
    ]:
        reports = Release(fitted.protocol_, [], coins)(frame, place)[:4_999]
        seen += [tuple(reports["age"]), tuple(reports["height"])]
    assert len(set(seen)) == len(seen)


def fits(counts, shares):
    """Pearson's test at one in a million; what cannot occur does not."""
    expected = np.array([float(share) for share in shares]) * counts.sum()
    possible = expected > 0
    assert not counts[~possible].any()
    statistic = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
    return statistic < chi2.isf(1e-6, np.count_nonzero(possible) - 1)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_reports_have_the_probabilities_of_the_channel(mechanism):
    """A fixed key, so it passes or fails for good; a true channel fails one key in a million."""
    n = 50_000
    fitted = perturber(mechanism=mechanism, bounds=(0, 4), grid_size=4, random_state=None)
    fitted.fit(pd.DataFrame({"x": [0.0]}))
    for position in (0, 1, 4):
        frame = pd.DataFrame({"x": np.full(n, float(position))})
        counts = fitted.tally(Release(fitted.protocol_, [], keyed())(frame, Place(position))).counts[0]
        assert fits(counts, fitted.channel()[0][position])
        assert not fits(counts, fitted.channel()[0][2])
    between = Release(fitted.protocol_, [], keyed())(pd.DataFrame({"x": np.full(n, 1.25)}))
    table = fitted.channel()[0]
    shares = [(3 * low + high) / 4 for low, high in zip(table[1], table[2], strict=True)]
    assert fits(fitted.tally(between).counts[0], shares)


def test_the_charge_is_that_of_one_call(engine):
    ledger = PrivacyLedger(epsilon=3)
    fitted = perturber(ledger=ledger)
    privatize(engine.frame(numbers()), fitted)
    assert fitted.guarantee_ == perturber().fit(only(numbers())).guarantee_
    assert ledger.spent.epsilon == fitted.guarantee_.epsilon
    with pytest.raises(BudgetExceeded):
        privatize(engine.frame(numbers()), fitted)
    assert len(ledger.report()) == 1


def test_calls_have_coins_of_their_own(engine):
    fitted = perturber(random_state=None)
    first, second = (engine.table(privatize(engine.frame(numbers()), fitted)) for _ in range(2))
    assert not first.equals(second)


def test_no_rows_give_no_reports(engine):
    fitted = perturber()
    found = engine.table(privatize(engine.frame(numbers().slice(0, 0)), fitted, keep=["number"]))
    assert (found.num_rows, found.column_names) == (0, ["age", "height", "number"])
    with pytest.raises(ValueError, match="0 sample"):
        tally(engine.frame(only(found)), fitted)


def test_columns_without_declared_names_are_all_that_are_not_kept():
    fitted = perturber(bounds=(0, 100))
    assert privatize(numbers(), fitted, keep=["number"]).column_names == ["age", "height", "number"]
    assert fitted.guarantee_.scope == ("age", "height")
    with pytest.raises(ValueError, match="bounds must be declared"):
        privatize(numbers(), perturber(bounds=None))
    with pytest.raises(ValueError, match="lacks the columns"):
        privatize(numbers(), perturber(bounds={"weight": (0, 1)}))


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf")])
def test_what_is_no_number_is_one_clear_error_and_leaves_nothing(lazy_engine, bad, tmp_path):
    strange = pa.table({"age": [12.5] * 9_999 + [bad], "height": [1.5] * 10_000})
    with pytest.raises(ValueError, match="column 'age' holds a missing value, a NaN or an inf") as caught:
        privatize(lazy_engine.frame(strange), perturber(), path=tmp_path / "out")
    assert "12.5" not in str(caught.value)
    assert not list(tmp_path.rglob("*.parquet"))


def test_text_is_refused_before_any_charge():
    ledger = PrivacyLedger(epsilon=3)
    with pytest.raises(TypeError, match="column 'age'"):
        privatize(pa.table({"age": ["SECRET"], "height": [1.5]}), perturber(ledger=ledger))
    assert ledger.spent.epsilon == 0


def test_a_stranger_among_reports_is_refused(engine):
    fitted = perturber().fit(only(numbers()))
    with pytest.raises(ValueError, match="column 'age' holds numbers that are not reports") as caught:
        tally(engine.frame(pa.table({"age": [12.3456], "height": [1.0]})), fitted)
    assert "12.3456" not in str(caught.value)


@pytest.mark.parametrize("before", ["csv", "parquet"])
def test_files_have_the_seeded_reports_of_memory(tmp_path, before):
    source = tmp_path / f"in.{before}"
    ds.write_dataset(numbers(), tmp_path, format=before, basename_template="{i}" + source.name)
    source = next(tmp_path.iterdir())
    for after in ("csv", "parquet"):
        reports = privatize_file(source, tmp_path / f"out.{after}", perturber())
        found = ds.dataset(reports, format=after)
        expected = privatize(numbers(), perturber())
        fitted = perturber().fit(only(numbers()))
        assert tally(found, fitted) == fitted.tally(expected)
        for name in BOUNDS:
            assert found.to_table()[name].to_pylist() == pytest.approx(expected[name].to_pylist())
        pd.testing.assert_frame_equal(estimate_file(reports, fitted), fitted.estimate_mean(expected))


def test_columns_of_a_csv_file_are_declared_by_name(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("age,height\n12,1.5\nSECRET,1.5\n")
    with pytest.raises(ValueError, match="bounds must be a mapping"):
        privatize_file(source, tmp_path / "out.csv", perturber(bounds=(0, 100)))
    with pytest.raises(ValueError, match="column 'age' holds a missing value, a NaN or an inf") as caught:
        privatize_file(source, tmp_path / "out.csv", perturber())
    assert "SECRET" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
