"""Errors that cost nothing and reveal nothing."""

from contextlib import contextmanager

import pytest

from skdp import PrivacyLedger
from skdp.testing import list_error_texts


@contextmanager
def refusal(error, match, *hidden, folder=None):
    """Require an error of a block: without a charge to its ledger, hidden words in it and its causes, and new files."""
    ledger, files = PrivacyLedger(1e9, delta=0.9), folder and sorted(folder.rglob("*"))
    with pytest.raises(error, match=match) as caught:
        yield ledger
    assert ledger.charges().empty
    texts = " ".join(list_error_texts(caught.value))
    assert [word for word in hidden if word in texts] == []
    assert folder is None or sorted(folder.rglob("*")) == files
