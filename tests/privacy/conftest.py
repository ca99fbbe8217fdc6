"""Ledgers of both kinds."""

import pytest

from skdp import PrivacyLedger


@pytest.fixture(params=["memory", "file"])
def make(request, tmp_path):
    """Make ledgers in memory, or each in a file of its own."""

    def make_ledger(**budget):
        in_memory = request.param == "memory"
        path = None if in_memory else tmp_path / f"ledger-{len(list(tmp_path.iterdir()))}.jsonl"
        return PrivacyLedger(path, **budget)

    return make_ledger
