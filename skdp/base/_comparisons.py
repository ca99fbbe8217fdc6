"""By what synthetic columns are compared, with real ones or with noisy counts."""

from __future__ import annotations

from statistics import NormalDist

QUANTILES = (0.1, 0.5, 0.9)

# Half the width of an interval of 95 %, in standard errors.
REACH = NormalDist().inv_cdf(0.975)

# From the first of the quantiles to the last one of a normal law, in standard deviations.
NORMAL_RANGE = NormalDist().inv_cdf(0.9) - NormalDist().inv_cdf(0.1)

# The share of the records that may have wrong values. At one half, every second row has
# to be changed: noise or chance that moves as many hides more of a marginal than it
# tells, whatever a model makes of it, as the model has records where noise says so. Of
# 735 columns of diabetes, wine and two generated tables of 400 rows (10 values a column,
# epsilons .1 to 1, three seeds), half of those with more noise are further away from the
# real ones than this; of the 300 with less, one is.
MOST_WRONG = 0.5
