"""Empirical lower bounds on epsilon."""

from skdp.evaluation.audits._audit import AuditResult, audit_epsilon
from skdp.evaluation.audits._events import bound_by_rows as bound_by_rows

__all__ = ["AuditResult", "audit_epsilon"]
