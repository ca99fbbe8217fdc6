"""
Several rows a person
=====================

A table of visits has many rows of some persons and few of others. `PerPerson` reports a random row of each, and its
guarantee is one for persons: epsilon does not grow with their rows, and how many rows they have is hidden.
"""

# %%
# 3,000 persons. Those who come often read other pages than those who come once.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import PerPerson, RandomizedResponseEncoder

rng = np.random.default_rng(0)
pages = ["news", "sport", "weather", "jobs"]
visits = rng.geometric(0.25, 3_000)
often = np.clip(visits / 10, 0, 1)[:, np.newaxis]
tastes = (1 - often) * np.array([0.2, 0.1, 0.5, 0.2]) + often * np.array([0.5, 0.4, 0.05, 0.05])
persons = np.repeat(np.arange(3_000), visits)
table = pd.DataFrame({"page": [pages[rng.choice(4, p=tastes[person])] for person in persons]})

encoder = RandomizedResponseEncoder(2.0, categories={"page": pages}, random_state=0)
private = PerPerson(encoder).fit(table)
reports = private.transform(table, groups=persons)
print(f"{len(table):,} rows, {len(reports):,} reports")
print(private.guarantee_)

# %%
# What is estimated is the mean over the persons of the share of their rows: each person counts alike. The share of all
# rows is another number, as persons with many rows count more in it. It cannot be estimated from these reports, which
# hide how many rows a person has.

found = private.estimate_frequencies(reports)
each_person = pd.crosstab(persons, table["page"], normalize="index").mean()[pages]
each_row = table["page"].value_counts(normalize=True)[pages]
places = np.arange(4)
figure, axes = plt.subplots(layout="constrained")
reach = (found["upper"] - found["lower"]) / 2
axes.errorbar(places, found["frequency"], reach, fmt="o", capsize=4, label="estimated")
axes.plot(places, each_person, "_", markersize=26, color="C1", label="persons alike (true)")
axes.plot(places, each_row, "x", markersize=9, color="C2", label="rows alike (true)")
axes.set(xticks=places, xticklabels=pages, ylabel="share", ylim=(0, None))
axes.legend()
plt.show()

# %%
# Several reports of a person share its epsilon: the more of them, the larger is the error.

errors = {}
for most in (1, 2, 4):
    several = PerPerson(encoder.set_params(epsilon=2.0 / most), max_rows_per_person=most).fit(table)
    tries = [several.estimate_frequencies(several.transform(table, groups=persons))["frequency"] for _ in range(20)]
    errors[most] = np.sqrt(np.mean([(one - each_person) ** 2 for one in tries]))
pd.Series(errors, name="error of a share").rename_axis("reports of a person").round(4)
