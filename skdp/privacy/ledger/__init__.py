"""Ledgers: budgets to which releases are charged, in memory or in a file."""

from skdp.privacy.ledger._admission import BudgetExceeded
from skdp.privacy.ledger._ledger import PrivacyLedger
from skdp.privacy.ledger._ledger import closed_ledger as closed_ledger
from skdp.privacy.ledger._parallel import ParallelRows
from skdp.privacy.ledger._report import Amount

__all__ = ["Amount", "BudgetExceeded", "ParallelRows", "PrivacyLedger"]
