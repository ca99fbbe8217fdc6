"""Fields of an outside author: what the protocol holds them to, and what their permanent reports share."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from skdp.local import SecretKey
from skdp.local._memo import Memo, MemoisedReports
from skdp.randomness import ONE, bernoulli_ratio, uniform_integers
from tests.outside_transformer import SaidField, SaidTransformer

KEY = SecretKey(bytes(range(32)))
N = 400


@dataclass(frozen=True, eq=False)
class PermanentField(SaidField):
    def report_permanent(self, codes, draws):
        value_bytes = codes[0].astype(">i8").view(np.uint8).reshape(-1, 8)
        reports = []
        for code, source in zip(codes[0].tolist(), draws.sources("report", value_bytes), strict=True):
            lies = bernoulli_ratio(source, self.lie, ONE, 1).item()
            uniform = uniform_integers(source, len(self.values), 1).item()
            reports.append(uniform if lies else code)
        return np.array(reports, np.int64)


class AlikeField(PermanentField):
    def permanent_parts(self):
        return [b"the same for all"]


class PermanentTransformer(MemoisedReports, SaidTransformer):
    field = PermanentField
    _mechanism = "said"

    def __init__(self, epsilon=1.0, *, categories=None, memoize=True, secret_key=KEY, ledger=None, random_state=None):
        super().__init__(epsilon, categories=categories, ledger=ledger, random_state=random_state)
        self.memoize, self.secret_key = memoize, secret_key

    def _make_protocol(self, table):
        protocol = super()._make_protocol(table)
        return replace(protocol, memo=Memo(self.secret_key, "PermanentTransformer", protocol.fields))


class AlikeTransformer(PermanentTransformer):
    field = AlikeField


def permanent_reports(values, name, declared=None):
    table = pd.DataFrame({name: values})
    made = PermanentTransformer(0.5, categories={name: sorted({*values}) if declared is None else declared})
    return made.fit(table).transform(table, record_id=list(range(N))).iloc[:, 0].to_numpy()


class TestPermanentReports:
    """Of equal values: about 0.4 of two independent reports agree (at epsilon 0.5 and three values), so 400 do not."""

    def test_of_two_columns_share_no_random_bits(self):
        values = list("xyzx") * (N // 4)
        table = pd.DataFrame({"a": values, "b": values})
        made = PermanentTransformer(1.0, categories={"a": list("xyz"), "b": list("xyz")}).fit(table)
        reports = made.transform(table, record_id=list(range(N)))
        assert 0.2 < (reports["a_said"] == reports["b_said"]).mean() < 0.6
        pd.testing.assert_frame_equal(reports, made.transform(table, record_id=list(range(N))), check_dtype=True)

    @pytest.mark.parametrize(
        ("values", "name", "declared"),
        [("xyzx", "q", None), ("uvwu", "a", None), ("xyzx", "a", ["x", "y", "t"])],
        ids=["another column", "other values", "other declared values"],
    )
    def test_of_two_transformers_share_no_random_bits(self, values, name, declared):
        first = permanent_reports(list("xyxy") * (N // 4), "a", list("xyz"))
        other = {"z": "y"} if declared else {}
        column = [other.get(value, value) for value in list(values) * (N // 4)]
        assert 0.2 < (first == permanent_reports(column, name, declared)).mean() < 0.6

    def test_of_fields_that_would_share_them_are_refused(self):
        table = pd.DataFrame({"a": ["x", "y"], "b": ["x", "y"]})
        made = AlikeTransformer(categories={"a": ["x", "y"], "b": ["x", "y"]})
        with pytest.raises(ValueError, match=r"permanent_parts of two fields must differ"):
            made.fit(table)


class TwoCodesField(SaidField):
    def prepare(self, columns):
        return super().prepare(columns) * 2


def test_another_number_of_arrays_than_columns_is_refused():
    table = pd.DataFrame({"a": ["x", "y"]})
    made = type("Two", (SaidTransformer,), {"field": TwoCodesField})(categories={"a": ["x", "y"]}).fit(table)
    with pytest.raises(ValueError, match=r"TwoCodesField.prepare must return 1 array.*got 2"):
        made.transform(table)


def test_a_scope_of_columns_that_no_field_reports_is_refused():
    table = pd.DataFrame({"a": ["x", "y"]})
    protocol = SaidTransformer(categories={"a": ["x", "y"]}).fit(table).protocol_
    with pytest.raises(ValueError, match=r"only one of them has 'b'"):
        replace(protocol, guarantee=replace(protocol.guarantee, scope=("a", "b")))
