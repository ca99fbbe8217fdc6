"""The ledger that an estimator charges."""

from __future__ import annotations

from typing import Any

from skdp.privacy import PrivacyLedger


def check_ledger(ledger: Any) -> None:
    """Check the ``ledger`` of an estimator."""
    if ledger is not None and not isinstance(ledger, PrivacyLedger):
        raise TypeError(f"ledger must be None or a PrivacyLedger, got {type(ledger).__name__}")
