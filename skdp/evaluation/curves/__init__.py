"""Scores of a model as a function of epsilon."""

from skdp.evaluation.curves._cells import seed_of as seed_of
from skdp.evaluation.curves._comparison import check_curve as check_curve
from skdp.evaluation.curves._comparison import compare_to_baseline
from skdp.evaluation.curves._comparison import corrected_error as corrected_error
from skdp.evaluation.curves._comparison import groups_of as groups_of
from skdp.evaluation.curves._comparison import rows_of_group as rows_of_group
from skdp.evaluation.curves._privacy_curve import privacy_curve
from skdp.evaluation.curves._scoring import AIF360 as AIF360
from skdp.evaluation.curves._scoring import ALL as ALL

__all__ = ["compare_to_baseline", "privacy_curve"]
