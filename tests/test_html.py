"""HTML of results in notebooks: escaped text without a value of the data."""

import html

import pandas as pd
import pytest

from skdp import NumericPerturber, PrivacyLedger, RandomizedResponseEncoder, RapporEncoder
from skdp.privacy import privacy_statement

EVIL = "<script>alert(1)</script>"


def test_html_escapes_text_and_warns_of_a_seed():
    people = pd.DataFrame({EVIL: ["f", "m"]})
    encoder = RandomizedResponseEncoder(1.0, categories={EVIL: ["f", "m"]}, random_state=0).fit(people)
    shown = privacy_statement(encoder).to_html()
    assert "<script" not in shown
    assert html.escape(EVIL) in shown
    assert "Do not publish. The noise comes from a seed" in shown


@pytest.mark.parametrize(
    ("encoder", "values"),
    [
        (RandomizedResponseEncoder(1.0, categories={"x": [1, 2]}, random_state=0), [1, 2]),
        (NumericPerturber(bounds=(0, 10), grid_size=10, random_state=0), [1.0, 9.0]),
        (RapporEncoder(n_bits=16, random_state=0), ["a", "b"]),
    ],
)
def test_repr_of_a_tally_contains_no_sum(encoder, values):
    tables = [pd.DataFrame({"x": [value] * 50}) for value in values]
    encoder.fit(tables[0])
    one, two = (repr(encoder.tally(encoder.transform(table))) for table in tables)
    assert one == two
    assert "50" in one


def test_html_of_an_estimator_does_not_contain_the_path_of_its_ledger(tmp_path):
    ledger = PrivacyLedger(path=tmp_path / "ledger.sqlite", epsilon=1.0)
    encoder = RandomizedResponseEncoder(1.0, categories={"x": ["f", "m"]}, ledger=ledger)
    assert str(tmp_path) not in repr(encoder) + encoder._repr_html_() + repr(ledger)
    assert ledger.path == tmp_path.resolve() / "ledger.sqlite"
