"""Adult, a public table with protected columns."""

from skdp.datasets._adult import load_adult, load_adult_aif360

__all__ = ["load_adult", "load_adult_aif360"]
