"""
RAPPOR: permanent and instantaneous noise
=========================================

RAPPOR hashes each value into a Bloom filter, randomises the bits once for good, and once more for each report. A server
decodes the sums by regression on a list of candidates.
"""

# %%
# 50,000 browsers report their home page; two of the candidates are never used.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import RapporEncoder

rng = np.random.default_rng(0)
pages = [f"site{number}.example" for number in range(8)]
shares = np.array([0.35, 0.25, 0.15, 0.1, 0.1, 0.05, 0, 0])
people = pd.DataFrame({"home": rng.choice(pages, 50_000, p=shares)})
encoder = RapporEncoder(
    None, f=0.25, p=0.35, q=0.65, n_bits=32, n_cohorts=8, random_state=0
)
reports = encoder.fit_transform(people)
print(encoder.guarantee_)

# %%
# The sums of the bits by cohort are all that the server keeps.

tally = encoder.tally(reports)
decoded = encoder.decode(reports, pages)
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.8), layout="constrained", width_ratios=(1.3, 1)
)
sizes, ones = np.split(tally.counts[0], [1], axis=1)  # a row a cohort
image = left.imshow(ones / sizes, aspect="auto", cmap="viridis")
left.set(xlabel="bit", ylabel="cohort", title="share of ones")
figure.colorbar(image, ax=left)
rows = np.arange(len(pages))
estimated = decoded["count"].reindex(pages)
right.barh(
    rows,
    people["home"].value_counts().reindex(pages, fill_value=0),
    color="lightgrey",
    label="true",
)
right.plot(estimated, rows, "o", color="C0", label="decoded")
right.set(yticks=rows, yticklabels=pages, xlabel="people")
right.invert_yaxis()
right.legend(loc="lower right")
plt.show()
