"""Files of estimators and pipelines, without code."""

from skdp.persistence._file import Record as Record
from skdp.persistence._file import load, save

__all__ = ["load", "save"]
