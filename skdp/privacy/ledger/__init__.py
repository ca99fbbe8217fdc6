"""Ledgers: budgets to which releases are charged, in memory or in a file."""

from skdp.privacy.ledger._book import BudgetExceeded
from skdp.privacy.ledger._ledger import PrivacyLedger
from skdp.privacy.ledger._ledger import closed_ledger as closed_ledger
from skdp.privacy.ledger._ledger import is_charged as is_charged
from skdp.privacy.ledger._ledger import spend as spend

__all__ = ["BudgetExceeded", "PrivacyLedger"]
