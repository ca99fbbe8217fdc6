"""The parts of an audit: its bound, what it tries and what it sees of a call."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom

from skdp import HeavyHitters, LocalHashingEncoder, NumericPerturber, RandomizedResponseEncoder, RapporEncoder
from skdp.evaluation.audits import clopper_pearson
from skdp.evaluation.audits._audit import exact_epsilon, of_transformer
from skdp.evaluation.audits._releases import (
    FORM,
    Audited,
    hash_cells,
    in_library,
    kept_by,
    make_records,
    raised,
    read_call,
    read_rows,
)
from skdp.evaluation.audits._search import by_rows, epsilon_lower_bound
from skdp.local import LocalTableEncoder, SubsetSelectionEncoder
from tests.conftest import each, often
from tests.evaluation import leaky_transformers as leaky
from tests.evaluation.audited import audited_transformers
from tests.evaluation.broken_transformers import one

TWO = (one(0), one(1))


class TestBound:
    @each("n", [1, 7, 25])
    @each("level", [0.2, 0.01])
    def test_each_bound_of_a_probability_is_wrong_as_rarely_as_stated(self, n, level):
        bounds = [clopper_pearson(count, n, level) for count in range(n + 1)]
        for share in np.linspace(0, 1, 41):
            chances = binom.pmf(np.arange(n + 1), n, share)
            assert sum(c for c, (low, _) in zip(chances, bounds, strict=True) if low > share) <= level * (1 + 1e-9)
            assert sum(c for c, (_, high) in zip(chances, bounds, strict=True) if high < share) <= level * (1 + 1e-9)

    @pytest.mark.long
    @each("delta", [0.0, 0.05])
    @each("one_share", [0.3, 0.9])
    @each("other_share", [0.02, 0.25])
    def test_it_exceeds_epsilon_as_rarely_as_stated(self, one_share, other_share, delta):
        """Enumerated: all pairs of counts of 12 and 18 draws."""
        level, trials = 0.1, (12, 18)
        epsilon = math.log((one_share - delta) / other_share)
        wrong = 0.0
        for a in range(trials[0] + 1):
            for b in range(trials[1] + 1):
                if epsilon_lower_bound((a, b), trials, delta=delta, level=level) > max(epsilon, 0.0):
                    wrong += binom.pmf(a, trials[0], one_share) * binom.pmf(b, trials[1], other_share)
        assert wrong <= level

    def test_both_probabilities_have_half_of_the_level(self):
        low, high = beta.ppf(0.05, 9, 2), beta.isf(0.05, 2, 9)
        bound = epsilon_lower_bound((9, 1), (10, 10), delta=0.1, level=0.1)
        assert bound == pytest.approx(math.log((low - 0.1) / high))

    def test_no_event_that_luck_has_chosen_raises_the_level(self):
        """Of 80 audits of 64 x 4 outcomes without any signal, no more may reject than level .2 explains (1e-6).

        A true level of .6 is noticed with a probability of .999."""
        runs, level, rng = 80, 0.2, np.random.default_rng(5)

        def release(table):
            return pd.DataFrame({"value": rng.integers(0, 64, len(table)), "other": rng.integers(0, 4, len(table))})

        audited = Audited(release, list(TWO), True)
        rejected = sum(by_rows(audited, 2_000, 0.0, level).epsilon_lower > 0 for _ in range(runs))
        assert rejected <= binom.isf(1e-6, runs, level)


class TestExactValue:
    def test_it_is_the_achieved_epsilon(self):
        rows = pd.DataFrame({"a": [0, 1], "b": [0, 1]})
        for k in (2, 5):
            two = SubsetSelectionEncoder(1.0, categories={"a": range(k), "b": range(3)}).fit(rows)
            alone = LocalHashingEncoder(1.0, categories={"a": range(k)}).fit(rows[["a"]])
            assert exact_epsilon(two) == two.guarantee_.epsilon
            assert exact_epsilon(alone) == alone.guarantee_.epsilon
        rappor = RapporEncoder(1.0, n_bits=4).fit(pd.DataFrame({"word": ["a"]}))
        assert exact_epsilon(rappor) == rappor.guarantee_.epsilon
        assert exact_epsilon(object()) is None

    def test_of_one_sampled_attribute_it_is_the_largest_ratio(self):
        channels = [[[Fraction(1, k + 1), Fraction(k, k + 1)], [Fraction(1, 2), Fraction(1, 2)]] for k in (2, 9, 3)]
        fitted = SimpleNamespace(strategy="sample", channel=lambda: channels)
        assert exact_epsilon(fitted) == pytest.approx(math.log(5))

    @each("n_sampled", [1, 2])
    def test_of_sampled_attributes_it_is_that_of_the_largest(self, n_sampled):
        numbers = pd.DataFrame({"u": [0.5], "v": [0.5], "w": [0.5]})
        options = {"bounds": dict.fromkeys(numbers, (0, 1)), "grid_size": 2}
        sampled = NumericPerturber(1.5, strategy="sample", n_sampled=n_sampled, **options).fit(numbers)
        assert exact_epsilon(sampled) == sampled.guarantee_.epsilon
        table = LocalTableEncoder(1.5, categories={"a": [0, 1, 2]}, strategy="weighted", **options)
        table.fit(numbers.assign(a=[0]))
        assert exact_epsilon(table) <= table.guarantee_.epsilon * (1 + 1e-12)


class TestOutputs:
    def test_equal_values_are_equal_whatever_the_dtype_of_their_column(self):
        columns = [np.array(values) for values in ([0, 1, 1 << 60], [0.0, 1.0, float(1 << 60)])]
        for column in (columns[1], np.array([0, 1.0, 1 << 60], object)):
            assert (hash_cells(columns[0]) == hash_cells(column)).all()
        words = hash_cells(np.array(["a", "b"], object))
        assert (words == hash_cells(np.array(["a", "b", None], object))[:2]).all()
        assert hash_cells(np.array([math.nan])) == hash_cells(np.array([None], object))
        assert len(np.unique(hash_cells(np.array(["1", 1, -0.0, 0, 0.5, None, (1,)], object)))) == 7

    def test_lists_in_cells_keep_their_order(self):
        columns = read_rows(pd.DataFrame({"a": [[1, 2], [2, 1, 3]]}), 2)
        assert columns["column 'a', place 0"].tolist() == [1, 2]
        assert columns["column 'a', length"].tolist() == [2, 3]

    def test_any_kind_of_table_is_read(self):
        frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
        for table in (frame, in_library(frame, "polars"), in_library(frame, "pyarrow"), frame.to_numpy()):
            assert [column.tolist() for column in read_rows(table, 2).values()] == [[1, 2], [0.5, 1.5]]
            with pytest.raises(ValueError, match="2 rows, not 3"):
                read_rows(table, 3)

    def test_types_of_cells_and_what_is_printed_logged_and_warned_are_part_of_the_form(self):
        values = [1, 1.0, True, "1", None, math.nan]
        tables = [pd.DataFrame({"a": pd.Series([value], dtype=object)}) for value in values]
        assert len({read_call(lambda table=table: table)[FORM] for table in tables}) == 5  # 1.0 and nan are both floats
        X, forms = pd.DataFrame({"value": [0, 1]}), set()
        for kind in (leaky.Leaky, leaky.Prints, leaky.Logs, leaky.Warns):
            forms.add(read_call(partial(kind.made().fit_transform, X))[FORM])
        assert len(forms) == 4
        assert any("printed: a record is odd" in form for form in forms)


class TestWhatIsTried:
    def test_all_values_of_small_domains(self):
        assert len(make_records(RandomizedResponseEncoder(categories={"a": range(16)}))) == 16
        assert len(make_records(RandomizedResponseEncoder(categories={"a": range(4), "b": range(4)}))) == 16
        assert len(make_records(RandomizedResponseEncoder(categories={"a": range(17)}))) == 6

    def test_mixed_tables_of_other_libraries_and_what_is_kept(self):
        audited = of_transformer(leaky.Leaky.made(), None, n_reports=None, statistic=None, random_state=None)
        groups = {group[0].name: [situation.table for situation in group] for group in audited.groups()}
        assert list(groups)[-4:] == ["7 rows: ", "polars: ", "pyarrow: ", "what is kept: "]
        one, other = groups["polars: "]
        assert (one.height, other.height) == (7, 7)
        assert sum(a != b for a, b in zip(one["value"], other["value"], strict=True)) == 1

    def test_what_is_kept_is_attributes_pickle_and_text(self):
        table = pd.DataFrame({"value": [3, 1]})
        kinds = leaky.Leaky, leaky.KeepsRowsPrivately, leaky.PickleHoldsRows
        sound, rows, pickled = (kept_by(kind.made().fit(table)) for kind in kinds)
        assert rows["_rows"] == "[[3], [1]]"
        assert sound.keys() == pickled.keys() >= {"guarantee_", "the text", "the pickle"}
        again = kept_by(leaky.PickleHoldsRows.made().fit(table.assign(value=[0, 2])))
        assert {name for name in pickled if pickled[name] != again[name]} == {"the pickle"}

    @pytest.mark.parametrize("name", often(dict(audited_transformers()), ["subset selection", "optimal"]))
    def test_of_a_correct_transformer_no_call_fails_and_nothing_of_the_record_is_kept(self, name):
        transformer = dict(audited_transformers())[name]
        audited = of_transformer(transformer, None, n_reports=None, statistic=None, random_state=None)
        groups = audited.groups()
        for situation in (situation for group in groups for situation in group):
            assert raised(read_call(partial(audited._seen, situation))) is None
        kept = [situation for situation in groups[-1] if situation.kept]
        one, again, other = (audited._seen(kept[place]) for place in (0, 0, 1))
        own = {name for name in one if one[name] != again[name]}  # random, as a public hash function
        assert {name for name in one if one[name] != other[name]} <= own

    def test_what_a_client_keeps_of_its_words_shows(self):
        class KeepsWords(HeavyHitters):
            def report(self, words):
                self._words = words.iloc[0, 0]
                return super().report(words)

        for kind, names in ((HeavyHitters, set()), (KeepsWords, {"_words"})):
            audited = of_transformer(kind(max_length=4), None, n_reports=None, statistic=None, random_state=None)
            one, other = map(audited._seen, audited.groups()[-1])
            assert {name for name in one if one[name] != other[name]} == names
