"""Adult, a public table with protected columns."""

from skdp.datasets._adult import load_adult

__all__ = ["load_adult"]
