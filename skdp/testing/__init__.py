"""Checks of private estimators: transformers that privatize rows, and statistics of a table."""

from skdp.testing._checks import check_curator
from skdp.testing._checks import curator_checks as curator_checks
from skdp.testing._checks import list_error_texts as list_error_texts
from skdp.testing._privatizer import check_privatizer
from skdp.testing._privatizer import privatizer_checks as privatizer_checks
from skdp.testing._replay import replay_release as replay_release

__all__ = ["check_curator", "check_privatizer"]
