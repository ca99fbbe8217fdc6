"""Checks of the contracts of estimators, ours or anybody's: of privatised rows, and of statistics of a table."""

from skdp.testing._carry_checks import check_form
from skdp.testing._curator import check_curator, curator_checks
from skdp.testing._privatizer import check_privatizer, privatizer_checks

__all__ = ["check_curator", "check_form", "check_privatizer", "curator_checks", "privatizer_checks"]
