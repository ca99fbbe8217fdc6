"""What a protocol holds the fields of an outside author to."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from skdp.local import Memo
from tests.outside_transformer import SaidField, SaidTransformer

TABLE = pd.DataFrame({"a": ["x", "y"]})


class TwoCodesField(SaidField):
    def prepare(self, columns):
        return super().prepare(columns) * 2


def test_another_number_of_arrays_than_columns_is_refused():
    made = type("Two", (SaidTransformer,), {"field": TwoCodesField})(categories={"a": ["x", "y"]}).fit(TABLE)
    with pytest.raises(ValueError, match=r"TwoCodesField.prepare must return 1 array.*got 2"):
        made.transform(TABLE)


def test_a_scope_of_columns_that_no_field_reports_is_refused():
    protocol = SaidTransformer(categories={"a": ["x", "y"]}).fit(TABLE).protocol_
    with pytest.raises(ValueError, match=r"Only one of them has 'b'"):
        replace(protocol, guarantee=replace(protocol.guarantee, scope=("a", "b")))


def test_permanent_reports_of_two_fields_must_not_share_random_bits():
    """Their context is the class, the parameters, the columns and their declared values."""
    (field,) = SaidTransformer(categories={"a": ["x", "y"]}).fit(TABLE).protocol_.fields
    other_fields = [replace(field, columns=("b",)), replace(field, lie=field.lie + 1)]
    Memo(bytes(32), "Said", [field, *other_fields])
    for other in (field, *other_fields):
        with pytest.raises(ValueError, match="of two fields must differ"):
            Memo(bytes(32), "Said", [other, field, *other_fields])
