"""Report of a study: experiments, figures and the HTML page."""

from skdp.evaluation.report._experiments import count_study as count_study
from skdp.evaluation.report._report import study_report

__all__ = ["study_report"]
