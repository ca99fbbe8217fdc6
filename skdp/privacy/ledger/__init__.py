"""Ledgers: budgets to which releases are charged, in memory or in a file."""

from skdp.privacy.ledger._ledger import Amount, BudgetExceeded, PrivacyLedger

__all__ = ["Amount", "BudgetExceeded", "PrivacyLedger"]
