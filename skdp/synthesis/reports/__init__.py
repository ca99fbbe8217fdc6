"""From randomised reports to a model: counts of columns and pairs, with their covariances."""

from skdp.synthesis.reports._read import check_encoder as check_encoder
from skdp.synthesis.reports._read import read_reported as read_reported
from skdp.synthesis.reports._read import reported_of as reported_of
from skdp.synthesis.reports._reported import Reported as Reported
from skdp.synthesis.reports._reported import ReportedGroup as ReportedGroup
from skdp.synthesis.reports._selection import MeasuredReports as MeasuredReports
from skdp.synthesis.reports._selection import check_reported as check_reported
from skdp.synthesis.reports._selection import measure_reports as measure_reports
