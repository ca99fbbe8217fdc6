"""Ledgers: budgets to which releases are charged, in memory or in a file."""

from skdp.privacy.ledger._ledger import Amount, BudgetExceeded, PrivacyLedger
from skdp.privacy.ledger._ledger import closed_ledger as closed_ledger
from skdp.privacy.ledger._meter import Metered as Metered
from skdp.privacy.ledger._meter import metered as metered
from skdp.privacy.ledger._meter import spend as spend

__all__ = ["Amount", "BudgetExceeded", "PrivacyLedger"]
