"""Checks of the contract that every transformer which privatises its rows should keep, ours or anybody's."""

from skdp.testing._privatizer import check_privatizer, privatizer_checks

__all__ = ["check_privatizer", "privatizer_checks"]
