"""Ledgers of both kinds, and the schema of records."""

import itertools
import json
from importlib.resources import files

import pytest

from skdp import PrivacyLedger

SCHEMA = json.loads(files("skdp.privacy").joinpath("record.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(params=["memory", "file"])
def make(request, tmp_path):
    """Make ledgers in memory, or each in a file of its own."""
    numbers = itertools.count()

    def make_ledger(epsilon=None, **budget):
        path = None if request.param == "memory" else tmp_path / f"ledger-{next(numbers)}.sqlite"
        return PrivacyLedger(epsilon, path=path, **budget)

    return make_ledger
