"""Requirements of a protocol on the fields of another package."""

from dataclasses import replace

import pandas as pd
import pytest

from skdp.local import Memo
from tests.outside_transformer import OutsideField, OutsideTransformer

TABLE = pd.DataFrame({"a": ["x", "y"]})


class TwoCodesField(OutsideField):
    def prepare(self, columns):
        return super().prepare(columns) * 2


def test_prepare_with_another_number_of_arrays_raises_an_error():
    made = type("Two", (OutsideTransformer,), {"field": TwoCodesField})(categories={"a": ["x", "y"]}).fit(TABLE)
    with pytest.raises(ValueError, match=r"TwoCodesField.prepare must return 1 array.*got 2"):
        made.transform(TABLE)


def test_guarantee_for_unreported_columns_raises_an_error():
    protocol = OutsideTransformer(categories={"a": ["x", "y"]}).fit(TABLE).protocol_
    with pytest.raises(ValueError, match=r"Only one of them has 'b'"):
        replace(protocol, guarantee=replace(protocol.guarantee, scope=("a", "b")))


def test_permanent_reports_of_two_fields_share_no_random_bits():
    """The context of a permanent report consists of class, parameters, columns and declared values."""
    (field,) = OutsideTransformer(categories={"a": ["x", "y"]}).fit(TABLE).protocol_.fields
    other_fields = [replace(field, columns=("b",)), replace(field, lie=field.lie + 1)]
    Memo(bytes(32), "Outside", [field, *other_fields])
    for other in (field, *other_fields):
        with pytest.raises(ValueError, match="of two fields must differ"):
            Memo(bytes(32), "Outside", [other, field, *other_fields])
