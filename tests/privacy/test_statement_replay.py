"""The total of a statement covers all outputs of its pipeline: replayed on neighbors, reports by exact channels."""

import pytest

from skdp import PrivacyGuarantee
from tests.conftest import often
from tests.privacy.stated_pipelines import NO_GUARANTEE, PIPELINES, replayed_loss, statement_of

QUICK = [
    *("scaler, model", "minmax, regression", "model", "mean"),
    *("reports", "two reports", "reports, private model"),
    *NO_GUARANTEE,
]


@pytest.mark.usefixtures("few_cells")
@pytest.mark.parametrize("name", often(list(PIPELINES), QUICK))
def test_total_covers_the_loss_of_all_outputs(name):
    total = statement_of(name).total
    if name in NO_GUARANTEE:
        assert total is None
        return
    worst, findings = replayed_loss(name, total)
    assert findings == []
    assert 0 < worst <= total.epsilon * (1 + 1e-9)


@pytest.mark.parametrize(
    ("name", "scope", "wrong"),
    [
        # `n_samples_seen_`, `mean_` and the sizes of samples reveal the number of rows.
        ("scaler, model", ("sick",), "differs, although"),
        ("target scaled", ("age", "hours"), "differs, although"),
        ("bag of parts", ("age", "hours", "target"), "more than the stated 6"),
    ],
)
def test_replay_finds_a_guarantee_that_does_not_hold(name, scope, wrong):
    claim = PrivacyGuarantee(6.0, delta=1e-6, relation="add_remove", trust="central", scope=scope)
    _, findings = replayed_loss(name, claim)
    assert any(wrong in text for text in findings)


def test_replay_counts_reports():
    claim = PrivacyGuarantee(1.0, scope=("sex",))
    assert replayed_loss("two reports", claim)[0] == pytest.approx(2)
