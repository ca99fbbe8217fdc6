"""Empirical lower bounds on epsilon."""

from skdp.evaluation.audits._audit import audit_epsilon
from skdp.evaluation.audits._events import bound_by_rows as bound_by_rows

__all__ = ["audit_epsilon"]
