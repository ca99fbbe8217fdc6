"""Studies of fairness under local privacy: tables, methods, baselines, and comparisons in pairs."""

from skdp.evaluation.studies._fairness_study import FairnessStudy, fairness_study
from skdp.evaluation.studies._tables import StudyTable

__all__ = ["FairnessStudy", "StudyTable", "fairness_study"]
