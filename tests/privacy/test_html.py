"""HTML of guarantees, ledgers, domains and statements in notebooks."""

from html.parser import HTMLParser

import pandas as pd
import pytest

from skdp import Domain, DPMean, Interval, PrivacyGuarantee, PrivacyLedger, RandomizedResponseEncoder, privacy_statement

NAME = '<script>alert("x")</script> & Co'
GUARANTEE = PrivacyGuarantee(0.1 + 0.2, delta=1e-6, scope=(NAME,), mechanism="noise")
FITTED = RandomizedResponseEncoder(1.0, categories={NAME: ["f", "m"]}).fit(pd.DataFrame({NAME: ["f"]}))


class Texts(HTMLParser):
    """Collects tags and texts, and checks that tags are closed."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.texts, self.open = [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data.strip())


def make_objects():
    ledger = PrivacyLedger(2.0)
    ledger.charge(PrivacyGuarantee(0.5), NAME)
    derived = Domain(
        {"age": Interval(0, 90, bins=9), NAME: ["f", "m"]}, constraints=["age < 80"], derived={"old": "age > 60"}
    )
    return {
        "guarantee": (GUARANTEE, [str(GUARANTEE)]),
        "ledger": (ledger, ["budget", "spent", "remaining", "0.5", "1.5"]),
        "domain": (
            derived,
            ["age", "Interval(0, 90, bins=9)", NAME, "['f', 'm']", "age < 80", "old = age > 60"],
        ),
        "statement": (privacy_statement(FITTED), [NAME, "privatized rows", "RandomizedResponseEncoder"]),
        "ledger statement": (privacy_statement(ledger), [NAME, "as charged"]),
        "empty ledger": (PrivacyLedger(rho=1.0), ["1"]),
        "empty statement": (privacy_statement(PrivacyLedger(1.0)), ["The ledger has no charges."]),
    }


@pytest.mark.parametrize("name", make_objects())
def test_html_has_the_facts_with_escaped_names(name):
    value, expected = make_objects()[name]
    found = Texts(value._repr_html_())
    assert "script" not in found.tags
    assert set(expected) <= set(found.texts)
    assert not hasattr(value, "to_html") or "<script" not in value.to_html()


def test_html_of_a_ledger_and_its_estimator_has_no_path(tmp_path):
    ledger = PrivacyLedger(1.0, path=tmp_path / "secret.sqlite")
    assert ledger.path == tmp_path.resolve() / "secret.sqlite"
    mean = DPMean(bounds=(0, 1), ledger=ledger)
    assert "secret.sqlite" not in ledger._repr_html_() + repr(ledger) + repr(mean) + mean._repr_html_()
    (tmp_path / "secret.sqlite").unlink()
    assert "spent=unknown" in ledger._repr_html_()


def test_repr_of_a_guarantee_is_its_sentence():
    assert repr(GUARANTEE) == str(GUARANTEE)
    assert repr(GUARANTEE).startswith("epsilon = 0.3, delta = 0.000001, local model, ")
    assert repr([PrivacyGuarantee(1.0)]) == "[epsilon = 1, local model, replacing one record]"
    assert "guarantee" not in repr(DPMean(bounds=(0, 1)))
