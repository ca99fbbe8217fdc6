"""What privacy costs: studies that compare private estimates and models with the truth, and the report of them."""

from skdp.evaluation._count_study import CountStudy, count_study
from skdp.evaluation._marginal_display import MarginalDisplay
from skdp.evaluation._model_study import model_study
from skdp.evaluation._report import age_sex_report, counts_report

__all__ = ["CountStudy", "MarginalDisplay", "age_sex_report", "count_study", "counts_report", "model_study"]
