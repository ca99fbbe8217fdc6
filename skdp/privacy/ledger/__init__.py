"""Ledgers: the budget that releases are charged to, in memory or in a file."""

from skdp.privacy.ledger._ledger import Amount, BudgetExceeded, PrivacyLedger

__all__ = ["Amount", "BudgetExceeded", "PrivacyLedger"]
