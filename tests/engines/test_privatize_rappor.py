"""Words of an open vocabulary, batch by batch: `RapporEncoder` on every engine, with and without a key."""

import pickle
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import chi2

from skdp import BudgetExceeded, PrivacyLedger
from skdp.engines import privatize, privatize_file, privatize_files, tally, tally_batches
from skdp.engines._batch_release import Release
from skdp.engines._randomness import BLOCK_ROWS, KeyedRandomness, Place, SeededRandomness
from skdp.local import NumericPerturber, RapporEncoder, SecretKey

KEY = SecretKey(b"a key of 32 bytes for the tests.")
ROWS, N = 2 * BLOCK_ROWS + 900, BLOCK_ROWS + 900
COLUMNS = ["word", "site"]


def rappor(**params):
    params = {"epsilon": 4.0, "n_bits": 8, "n_cohorts": 3, "random_state": 0, "handle_missing": "value"} | params
    return RapporEncoder(**params).fit(pd.DataFrame({"word": ["a"], "site": ["b"]}))


@cache
def words(rows=N):
    draws = np.random.default_rng(1)
    missing = draws.random(rows) < 0.1
    return pa.table(
        {
            "word": pa.array(draws.choice(["a", "b", "c", "d"], rows), mask=missing),
            "site": draws.choice(["x", "y"], rows),
            "person": [f"person {number}" for number in range(rows)],
            "number": np.arange(rows),
        }
    )


def bits(table):
    return table.drop_columns("number") if "number" in table.column_names else table


def test_a_seeded_release_is_the_same_on_every_engine(engine):
    expected = privatize(words(), rappor())
    found = engine.table(privatize(engine.frame(words()), rappor()))
    assert found.column_names == rappor().get_feature_names_out().tolist()
    if engine.name != "spark":  # it numbers no rows
        assert found.to_pydict() == expected.to_pydict()


def test_reports_are_tallied_on_every_engine(engine):
    fitted = rappor()
    released = engine.table(privatize(engine.frame(words()), fitted, keep=["number"]))
    assert released["number"].to_pylist() == words()["number"].to_pylist()
    found = tally(engine.frame(released), fitted)
    assert found == fitted.tally(bits(released))
    assert found.n_reports == N
    lists = {"word": ["a", "b", "c", "d", None]}
    pd.testing.assert_frame_equal(fitted.decode(found, lists), fitted.decode(bits(released), lists))


def test_streams_are_tallied_too():
    fitted = rappor()
    released = privatize(words(), fitted)
    batches = [released.slice(0, 0), released.slice(0, 7).to_pandas(), released.slice(7)]
    assert tally_batches(iter(batches), fitted) == fitted.tally(released)
    with pytest.raises(ValueError, match="0 sample"):
        tally_batches([], fitted)


def released(frame, fitted, cuts, **options):
    release = Release(fitted.protocol_, [], SeededRandomness(fitted.randomness(call=0)), **options)
    edges = [0, *cuts, len(frame)]
    return pd.concat([release(frame[start:stop], Place(first=start)) for start, stop in pairwise(edges)])


@pytest.mark.parametrize("options", [{}, {"record_id": "person"}])
def test_seeded_reports_of_a_row_depend_on_no_other_row_and_no_cut(options):
    frame = words(ROWS).to_pandas()
    fitted = rappor(secret_key=KEY if options else None)
    whole = released(frame, fitted, [], **options)
    for cuts in ([BLOCK_ROWS], [1, 7, 7, BLOCK_ROWS - 1, BLOCK_ROWS + 1]):
        pd.testing.assert_frame_equal(released(frame, fitted, cuts, **options), whole)
    changed = np.arange(ROWS) % 3 == 0
    other = frame.copy()
    other.loc[changed, "word"] = "another word"
    pd.testing.assert_frame_equal(released(other, fitted, [], **options)[~changed], whole[~changed])


def keyed(number=0):
    return KeyedRandomness(SecretKey(bytes([number]) * 32))


@pytest.mark.parametrize("options", [{}, {"record_id": "person"}])
def test_a_batch_that_is_drawn_again_has_the_same_reports(options):
    frame = words(5_000).to_pandas()
    release = Release(
        rappor(random_state=None, secret_key=KEY if options else None).protocol_, [], KeyedRandomness(), **options
    )
    again = pickle.loads(pickle.dumps(release))
    pd.testing.assert_frame_equal(release(frame, Place(3)), again(frame, Place(3)))


def same(word, rows=2_000):
    return pd.DataFrame({"word": [word] * rows, "site": ["x"] * rows})


def test_another_key_place_or_value_has_coins_of_its_own():
    """Cohorts are drawn without looking at a value: those of equal coins are equal (false alarm 3**-1999)."""
    fitted = rappor(random_state=None)
    last = same("a")
    last.loc[1_999, "word"] = "b"
    seen = []
    for frame, coins, place in [
        (same("a"), keyed(), Place()),
        (same("a"), keyed(1), Place()),
        (same("a"), keyed(), Place(0)),
        (same("a"), keyed(), Place(None, 1)),
        (same("b"), keyed(), Place()),  # one value each, and another one: numbers of the values would be the same
        (same(None), keyed(), Place()),
        (same("None"), keyed(), Place()),
        (same(1), keyed(), Place()),
        (same("1"), keyed(), Place()),
        (last, keyed(), Place()),
        (pd.concat([same("a"), same("a")[:1]]), keyed(), Place()),
        (same("a").set_axis(["site", "word"], axis=1), keyed(), Place()),
    ]:
        seen.append(tuple(Release(fitted.protocol_, [], coins)(frame, place)["cohort"][:1_999]))
    assert len(set(seen)) == len(seen)


def test_values_that_are_written_alike_in_a_row_have_coins_of_their_own():
    """Joined as they are written, "s a" and "s bs c" are what "s as b" and "s c" are."""
    fitted = rappor(random_state=None)
    frames = [same("a").assign(word=pair * 1_000) for pair in (["a", "bs c"], ["as b", "c"])]
    seen = {tuple(Release(fitted.protocol_, [], keyed())(frame)["cohort"]) for frame in frames}
    assert len(seen) == 2


def test_other_persons_with_the_same_values_have_second_coins_of_their_own():
    """With f = 1e-9 nobody's permanent bits differ, and the second coins show (false alarm 2**-4000)."""
    one_cohort = {"epsilon": None, "f": 1e-9, "p": 0.25, "q": 0.75, "n_cohorts": 1, "secret_key": KEY}
    fitted, seen = rappor(**one_cohort, random_state=None), []
    for number in range(2):
        frame = same("a").assign(person=[f"{number}:{row}" for row in range(2_000)])
        seen.append(Release(fitted.protocol_, [], keyed(), record_id="person")(frame))
    assert not seen[0].equals(seen[1])


def fits(counts, shares):
    """Pearson's test at one in a million."""
    expected = np.array([float(share) for share in shares]) * counts.sum()
    return ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-6, len(expected) - 1)


@pytest.mark.parametrize("options", [{}, {"record_id": "person"}])
@pytest.mark.parametrize("word", ["a", "b", None])
def test_reports_have_the_probabilities_of_the_channel(options, word):
    """Cohort and four bits, 64 cells; fixed keys, so it passes or fails for good."""
    n = 20_000
    params = {"epsilon": 2.0, "p": 0.25, "q": 0.75, "n_bits": 4, "n_hashes": 1, "n_cohorts": 4}
    encoder = RapporEncoder(**params, handle_missing="value", secret_key=KEY if options else None)
    encoder.fit(pd.DataFrame({"word": ["a"]}))
    frame = pd.DataFrame({"word": [word] * n, "person": range(n)})
    reports = Release(encoder.protocol_, [], keyed(), **options)(frame).to_numpy().astype(int)
    cells = np.bincount(reports @ [16, 8, 4, 2, 1], minlength=64)
    written = b"missing" if word is None else b"s " + word.encode()
    shares = []
    for cohort in range(4):
        places = encoder.randomizer_.places(cohort, written)
        shares += encoder.randomizer_.channel([[int(bit in places) for bit in range(4)]])[0]
    assert fits(cells, [share / 4 for share in shares])
    assert not fits(cells, shares[16:] + shares[:16])


# With a key


def test_permanent_bits_are_those_of_transform_on_every_engine(engine):
    """Without a second round (p = 0, q = 1), the whole report is permanent."""
    fitted = rappor(p=0, q=1, secret_key=KEY)
    table = words()
    if engine.name == "reader":
        with pytest.raises(ValueError, match="read once"):
            privatize(engine.frame(table), fitted, record_id="person")
        return
    found = engine.table(privatize(engine.frame(table), fitted, record_id="person", keep=["number"]))
    expected = fitted.transform(table.select(COLUMNS), record_id=table["person"])
    assert bits(found).to_pydict() == expected.to_pydict()


@pytest.mark.parametrize(("constant", "charges"), [(True, 1), (False, 2)])
def test_a_constant_value_is_charged_once(engine, constant, charges):
    if engine.name == "reader":
        return
    ledger = PrivacyLedger(epsilon=9)
    fitted = rappor(secret_key=KEY, constant_values=constant, ledger=ledger)
    for _ in range(2):
        privatize(engine.frame(words(100)), fitted, record_id="person")
    assert len(ledger.report()) == charges
    assert ledger.spent.epsilon == charges * fitted.permanent_guarantee_.epsilon


def test_without_a_key_each_call_is_charged(engine):
    ledger = PrivacyLedger(epsilon=1e9)
    fitted = rappor(ledger=ledger)
    for _ in range(2):
        privatize(engine.frame(words(100)), fitted)
    assert ledger.spent.epsilon == pytest.approx(2 * fitted.instantaneous_guarantee_.epsilon)
    with pytest.raises(BudgetExceeded):
        privatize(engine.frame(words(100)), rappor(ledger=PrivacyLedger(epsilon=0.001)))


# What is refused


def test_columns_are_all_that_are_not_kept_if_it_is_not_fitted():
    encoder = RapporEncoder(n_bits=8, handle_missing="value", secret_key=KEY)
    privatize(words(), encoder, keep=["number"], record_id="person")
    assert encoder.guarantee_.scope == ("word", "site")


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_value_is_one_clear_error_and_leaves_nothing(lazy_engine, missing, tmp_path):
    strange = pa.table({"word": [1.5] * 9_999 + [missing], "site": ["x"] * 10_000})
    with pytest.raises(ValueError, match="column 'word' holds missing values"):
        privatize(lazy_engine.frame(strange), rappor(handle_missing="error"), path=tmp_path / "out")
    assert not list(tmp_path.rglob("*.parquet"))


def test_no_rows_give_no_reports(engine):
    fitted = rappor()
    found = engine.table(privatize(engine.frame(words().slice(0, 0)), fitted, keep=["number"]))
    assert (found.num_rows, found.column_names) == (0, [*fitted.get_feature_names_out(), "number"])
    with pytest.raises(ValueError, match="0 sample"):
        tally(engine.frame(bits(found)), fitted)


def test_a_stranger_among_reports_is_refused(engine):
    fitted = rappor()
    released = privatize(words(10), fitted)
    strange = released.set_column(0, "cohort", pa.array([77] * 10))
    with pytest.raises(ValueError, match="cohorts of the reports"):
        tally(engine.frame(strange), fitted)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("release", [privatize_file, privatize_files])
def test_a_row_in_place_of_a_header_is_not_shown(tmp_path, release, form):
    text = "SECRET Jane,SECRET positive\nJohn,healthy\n" if form == "csv" else '{"SECRET Jane": "SECRET positive"}\n'
    (tmp_path / f"in.{form}").write_text(text)
    ledger = PrivacyLedger(epsilon=9)
    for made in (rappor(ledger=ledger), NumericPerturber(1.0, bounds=(0, 1), ledger=ledger).fit([[0.5]])):
        with pytest.raises(ValueError, match="lacks the columns") as caught:
            release(tmp_path / f"in.{form}", tmp_path / "out.csv", made)
        assert "SECRET" not in f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"
    assert ledger.spent.epsilon == 0
