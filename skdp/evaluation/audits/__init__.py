"""Empirical lower bounds on epsilon."""

from skdp.evaluation.audits._audit import (
    AuditResult,
    audit_epsilon,
)
from skdp.evaluation.audits._search import bound_by_rows as bound_by_rows
from skdp.evaluation.audits._search import clopper_pearson

__all__ = [
    "AuditResult",
    "audit_epsilon",
    "clopper_pearson",
]
