"""Tables of noisy counts."""

import numpy as np
import pandas as pd


def make_counts(counts, std_error=0.0, **levels):
    """Return a table of DPHistogram from an array of counts, with the levels of each axis."""
    index = pd.MultiIndex.from_product(levels.values(), names=levels)
    return pd.DataFrame({"count": np.ravel(counts), "std_error": std_error}, index=index)


def add_noise(counts, epsilon, rng):
    """Add the noise of DPHistogram to a table of counts."""
    stay = np.exp(-epsilon)
    noise = rng.geometric(1 - stay, len(counts)) - rng.geometric(1 - stay, len(counts))
    return counts.assign(count=counts["count"] + noise, std_error=np.sqrt(2 * stay) / (1 - stay))


def count_covered(table, truth):
    """Return the numbers of intervals that cover the truth, and of all intervals."""
    given = table["supported"].to_numpy(bool)
    covers = (table["lower"] <= truth) & (table["upper"] >= truth)
    return np.array([covers[given].sum(), given.sum()])
