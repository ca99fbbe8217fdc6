"""
Persons with several visits
===========================

`DPPanelSynthesizer` models each row together with the row before of the same person, and draws persons visit by visit.
Here are patients whose state changes slowly, and who leave sooner if they are well.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import DPMarginalSynthesizer
from skdp.synthesis import DPPanelSynthesizer

STATES = ["well", "ill", "worse"]
CHANGES = np.array([[0.8, 0.15, 0.05], [0.3, 0.5, 0.2], [0.05, 0.25, 0.7]])
rng = np.random.default_rng(0)
n = 10_000
state, patients, days = rng.choice(3, n, p=[0.2, 0.3, 0.5]), np.arange(n), []
for week in range(8):
    day = 7 * week + rng.integers(0, 7, len(patients))
    days.append(pd.DataFrame({"patient": patients, "day": day, "state": np.array(STATES)[state[patients]]}))
    patients = patients[rng.random(len(patients)) > np.array([0.2, 0.1, 0.1])[state[patients]]]
    state = (rng.random(n)[:, np.newaxis] > CHANGES[state].cumsum(axis=1)).sum(axis=1)
visits = pd.concat(days, ignore_index=True)

inner = DPMarginalSynthesizer(epsilon=1.0, delta=1e-6, domain={"state": STATES}, random_state=0)
panel = DPPanelSynthesizer(inner, person="patient", time="day", max_visits=5).fit(visits)
synthetic = panel.sample()
print(panel.guarantee_)
print(f"{panel.n_persons_:.0f} patients, with a standard error of {panel.n_persons_std_error_:.0f}")

# %%
# Do errors add up from visit to visit? The total variation of the states at each visit, beside that of rows which are
# drawn without an order.
visits["visit"] = visits.groupby("patient")["day"].rank().astype(int)
kept = visits[visits["visit"] <= 5]


def shares(table):
    return pd.crosstab(table["visit"], table["state"], normalize="index")[STATES]


everybody = kept["state"].value_counts(normalize=True)[STATES]
drift = pd.DataFrame(
    {
        "visit by visit": (shares(synthetic) - shares(kept)).abs().sum(axis=1) / 2,
        "without an order": (everybody - shares(kept)).abs().sum(axis=1) / 2,
    }
)
print(drift.round(3))

# %%
# What follows what, and how long patients stay.


def changes(table):
    before = table.groupby("patient")["state"].shift()
    return pd.crosstab(before, table["state"], normalize="index").loc[STATES, STATES]


figure, panels = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
for axes, (name, table) in zip(panels, {"real": kept, "synthetic": synthetic}.items(), strict=False):
    found = changes(table)
    axes.imshow(found, vmin=0, vmax=1, cmap="Blues")
    axes.set(title=f"{name} changes", xticks=range(3), yticks=range(3), xlabel="state", ylabel="state before")
    axes.set_xticklabels(STATES)
    axes.set_yticklabels(STATES)
    for (row, column), share in np.ndenumerate(found.to_numpy()):
        axes.text(column, row, f"{share:.2f}", ha="center", va="center", color="white" if share > 0.5 else "black")
for offset, (name, table) in zip([-0.2, 0.2], {"real": kept, "synthetic": synthetic}.items(), strict=True):
    lengths = table.groupby("patient").size().value_counts(normalize=True).sort_index()
    panels[2].bar(lengths.index + offset, lengths, width=0.4, label=name)
panels[2].set(title="visits of a patient, 5 at most", ylabel="share of patients")
panels[2].legend()
plt.show()
