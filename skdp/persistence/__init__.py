"""Files of estimators and pipelines, without code."""

from skdp.persistence._file import load, save
from skdp.persistence._records import Record as Record

__all__ = ["load", "save"]
