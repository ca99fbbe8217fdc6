"""Empirical lower bounds on epsilon."""

from skdp.evaluation.audits._audit import audit_epsilon

__all__ = ["audit_epsilon"]
