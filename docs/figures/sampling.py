"""Pictures of the page about secret samples."""

import math

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer

from skdp import DPHistogram, DPMean, Interval
from skdp.datasets import load_adult
from skdp.privacy import PrivacyGuarantee, Sampled, subsampled_guarantee

RATES = np.geomspace(0.01, 1, 9)


def amplification():
    """Draw epsilon after sampling by the rate."""
    axes = plt.subplots(figsize=(6.4, 3.6))[1]
    for given in (0.1, 1.0, 3.0):
        one = PrivacyGuarantee(given, relation="add_remove", trust="central")
        found = [subsampled_guarantee(one, float(rate)).epsilon for rate in RATES]
        axes.loglog(RATES, found, marker="o", markersize=3, label=f"epsilon {given:g} given the sample")
    axes.set(xlabel="rate of the sample", ylabel="epsilon of a record of the table")
    axes.legend()


def cost():
    """Draw the stated errors at one epsilon, by the rate."""
    cancer = load_breast_cancer(as_frame=True).data[["mean radius"]]
    tables = {
        "Adult: age": (load_adult().data[["age"]], (0, 100)),
        "breast cancer: radius": (cancer, (0, 40)),
    }
    panels = plt.subplots(1, 2, figsize=(7.4, 3.4))[1]
    for axes, (name, (frame, bounds)) in zip(panels, tables.items(), strict=True):
        column = frame.columns[0]
        for epsilon in (0.1, 1.0):
            means, counts = [], []
            for rate in RATES:
                share = Sampled(epsilon, float(rate))
                width = bounds[1] - bounds[0]
                runs = [DPMean(share, bounds=bounds, random_state=seed).fit(frame) for seed in range(20)]
                errors = [(run.mean_[0] - frame[column].mean()) / width for run in runs]
                means.append(math.sqrt(np.mean(np.square(errors))))
                domain = Interval(*bounds, bins=8)
                counts.append(
                    DPHistogram(share, domain=domain, random_state=0).fit(frame).std_error_.mean() / len(frame)
                )
            axes.loglog(RATES, means, "o-", markersize=3, label=f"mean, epsilon {epsilon:g}")
            axes.loglog(RATES, counts, "s--", markersize=3, label=f"a share of 8, epsilon {epsilon:g}")
        axes.set(xlabel="rate of the sample", title=name)
    panels[0].set_ylabel("error")
    panels[0].legend(fontsize="small")


def hidden():
    """Draw the laws of a released count with and without a record, of samples and of the table."""
    panels = plt.subplots(1, 2, figsize=(6.4, 2.8), sharey=True)[1]
    z = np.arange(-6, 8)

    def law(center):
        weights = np.exp(-np.abs(z - center) * 1.5)
        return weights / weights.sum()

    for axes, rate in zip(panels, (1.0, 0.1), strict=True):
        axes.bar(z - 0.2, law(0), width=0.4, label="without the record")
        axes.bar(z + 0.2, (1 - rate) * law(0) + rate * law(1), width=0.4, label="with it")
        axes.set(title=f"rate {rate:g}", xlabel="noise on the count of the others")
    panels[0].legend(fontsize="small")
