"""Private columns beside public ones: noisy counts, and a model of the former given the latter."""

from skdp.synthesis.columns._counts import Codes as Codes
from skdp.synthesis.columns._counts import ColumnLayout as ColumnLayout
from skdp.synthesis.columns._counts import Cross as Cross
from skdp.synthesis.columns._counts import NoisyCounts as NoisyCounts
from skdp.synthesis.columns._counts import PrivateColumns as PrivateColumns
from skdp.synthesis.columns._counts import measure_columns as measure_columns
from skdp.synthesis.columns._model import ColumnModel as ColumnModel
from skdp.synthesis.columns._model import draw_evenly as draw_evenly
from skdp.synthesis.columns._model import fit_model as fit_model
