"""Report of a study: its sections with figures, and the HTML page."""

from skdp.evaluation.report._report import study_report

__all__ = ["study_report"]
