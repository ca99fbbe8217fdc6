"""Fitted estimators and pipelines in files that hold JSON and arrays, and no code."""

from skdp.persistence._file import load, save

__all__ = ["load", "save"]
