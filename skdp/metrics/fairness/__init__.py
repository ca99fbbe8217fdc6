"""Group fairness for known groups, and what metrics of estimated groups share with it."""

from skdp.metrics.fairness._aif360 import import_optional as import_optional
from skdp.metrics.fairness._aif360 import to_aif360 as to_aif360
from skdp.metrics.fairness._inputs import find_positive_label as find_positive_label
from skdp.metrics.fairness._inputs import is_collection as is_collection
from skdp.metrics.fairness._inputs import name_groups as name_groups
from skdp.metrics.fairness._inputs import read_column as read_column
from skdp.metrics.fairness._inputs import read_features as read_features
from skdp.metrics.fairness._inputs import read_predictions as read_predictions
from skdp.metrics.fairness._inputs import split_rows as split_rows
from skdp.metrics.fairness._intervals import Estimate as Estimate
from skdp.metrics.fairness._intervals import Numbers as Numbers
from skdp.metrics.fairness._intervals import proportion as proportion
from skdp.metrics.fairness._intervals import two_sided as two_sided
from skdp.metrics.fairness._rates import Labels as Labels
from skdp.metrics.fairness._rates import PairsOfGroups as PairsOfGroups
from skdp.metrics.fairness._rates import RateSums as RateSums
from skdp.metrics.fairness._rates import compare_with_last as compare_with_last
from skdp.metrics.fairness._rates import sums_of_estimated as sums_of_estimated
from skdp.metrics.fairness._rates import sums_of_known as sums_of_known
from skdp.metrics.fairness._report import LABELS as LABELS
from skdp.metrics.fairness._report import Groups as Groups
from skdp.metrics.fairness._report import Precision as Precision
from skdp.metrics.fairness._report import consistency_rows as consistency_rows
from skdp.metrics.fairness._report import fairness_report as fairness_report
from skdp.metrics.fairness._report import measure as measure
from skdp.metrics.fairness._report import write_table as write_table
