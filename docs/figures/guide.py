"""Pictures of the user guide: what each task costs on two data sets."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from sklearn.compose import ColumnTransformer
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_wine,
    make_classification,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder

from skdp import (
    Domain,
    DPAdditiveClassifier,
    DPColumnSynthesizer,
    DPHistogram,
    DPLogisticRegression,
    DPMarginalSynthesizer,
    DPMean,
    DPStandardScaler,
    Interval,
    NumericPerturber,
    PerHalf,
    RandomizedResponseEncoder,
    ReportLogisticRegression,
    SetValuedEncoder,
    recommend_plan,
)
from skdp.datasets import load_adult
from skdp.evaluation import ShapeDisplay
from skdp.metrics import debiased_fairness, fairness_report, marginal_error
from skdp.oracles import (
    LocalHashing,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
    choose_oracle,
    client_report,
)
from skdp.privacy import PrivacyGuarantee, compose, zcdp_epsilon
from skdp.randomness import SecureSource

EPSILONS = (0.5, 1.0, 2.0, 4.0)
METRIC = "statistical_parity_difference"
WORDS = ["education", "marital-status", "relationship", "race", "sex"]


@cache
def numbers():
    """Return a column of numbers of each data set, and its public bounds."""
    return {
        "Adult: age": (load_adult().data[["age"]], (0, 100)),
        "breast cancer: mean radius": (
            load_breast_cancer(as_frame=True).data[["mean radius"]],
            (5, 30),
        ),
    }


def by_epsilon(measure, ylabel, names, epsilons=EPSILONS):
    """Draw a panel a data set: the root mean square of what `measure` returns, by epsilon."""
    panels = plt.subplots(1, len(names), figsize=(7.4, 3.3))[1]
    for index, (axes, name) in enumerate(zip(panels, names, strict=True)):
        for label, errors in measure(name).items():
            axes.loglog(epsilons, errors, "os^"[index] + "-", label=label)
        axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        axes.minorticks_off()
        axes.set(title=name, xlabel="epsilon (smaller is more private)")
        axes.legend()
    panels[0].set_ylabel(ylabel)


def root_mean_square(errors):
    return float(np.sqrt(np.mean(np.square(errors))))


def _local_means(name):
    table, bounds = numbers()[name]
    table = table.iloc[:2_000]
    found = {}
    for mechanism in ("optimal", "square_wave"):
        found[mechanism.replace("_", " ")] = [
            root_mean_square(
                [
                    perturber.estimate_mean(
                        perturber.fit_transform(table)
                    )["mean"].iloc[0]
                    - table.iloc[:, 0].mean()
                    for perturber in (
                        NumericPerturber(
                            epsilon,
                            mechanism=mechanism,
                            bounds=bounds,
                            random_state=seed,
                        )
                        for seed in range(20)
                    )
                ]
            )
            / (bounds[1] - bounds[0])
            * 100
            for epsilon in EPSILONS
        ]
    return found


def local_means():
    """Draw errors of means in the local model."""
    by_epsilon(
        _local_means, "error of the mean, % of the bounds", numbers()
    )


def distribution():
    """Draw a distribution that is estimated from reports."""
    table, bounds = numbers()["Adult: age"]
    perturber = NumericPerturber(
        2.0, mechanism="square_wave", bounds=bounds, random_state=0
    )
    estimated = perturber.estimate_distribution(
        perturber.fit_transform(table), n_bins=24
    )
    edges = np.linspace(*bounds, 25)
    axes = plt.subplots()[1]
    axes.hist(
        table["age"],
        bins=edges,
        weights=np.full(len(table), 1 / len(table)),
        alpha=0.35,
        label="true",
    )
    axes.stairs(
        estimated["frequency"],
        edges,
        color="C1",
        linewidth=2,
        label="estimated from reports",
    )
    axes.set(xlabel="age", ylabel="share of the people")
    axes.legend()


def table_plans():
    """Draw the errors of all columns and of one of them for a table, by epsilon."""
    adult = load_adult().domain.select(["sex", "race", "education"])
    adult = {name: adult[name].values for name in adult.columns}
    wine = {
        name: Interval(0, 30, bins=6)
        for name in load_wine().feature_names[:4]
    } | {"class": range(3)}
    tables = {"Adult": adult, "Wine": wine}
    panels = plt.subplots(1, 2, figsize=(7.4, 3.6), sharey=True)[1]
    for axes, (title, values) in zip(panels, tables.items(), strict=True):
        sizes = np.array(Domain(values).sizes)
        for strategy, n_reported in (("split", len(sizes)), ("sample", 1)):
            inclusion = n_reported / len(sizes)
            times = []
            for epsilon in EPSILONS:
                noise = [
                    choose_oracle(k, epsilon / n_reported)[
                        1
                    ].mean_squared_error
                    for k in sizes.tolist()
                ]
                spread = (1 / inclusion - 1) * (1 - 1 / sizes) / sizes
                error = np.average(
                    np.array(noise) / inclusion + spread, weights=sizes
                )
                times.append(error / recommend_plan(values, epsilon).error)
            axes.plot(EPSILONS, times, marker="o", label=strategy)
        axes.set(
            title=title,
            xlabel="epsilon",
            xscale="log",
            yscale="log",
            xticks=EPSILONS,
            xticklabels=EPSILONS,
        )
        axes.minorticks_off()
    panels[0].set(
        ylabel="error, as a multiple of the plan", ylim=(0.8, 100)
    )
    panels[0].legend(ncols=2, loc="upper center")


@cache
def lists():
    """Return a column of lists of each data set, and the declared values."""
    adult, wine = load_adult().data, load_wine(as_frame=True).data
    flags = {
        "degree": adult["education-num"] >= 13,
        "married": adult["marital-status"].str.startswith("Married"),
        "more than 40 hours": adult["hours-per-week"] > 40,
        "capital gain": adult["capital-gain"] > 0,
        "capital loss": adult["capital-loss"] > 0,
        "own business": adult["workclass"]
        .astype(str)
        .str.startswith("Self"),
        "born elsewhere": adult["native-country"] != "United-States",
    }
    tables = {
        "Adult: facts about a person": pd.DataFrame(flags),
        "Wine: above the median": wine > wine.median(),
    }
    return {
        name: (
            pd.Series(
                [list(table.columns[row])[:4] for row in table.to_numpy()]
            ),
            list(table),
        )
        for name, table in tables.items()
    }


def _list_errors(name):
    column, values = lists()[name]
    table, errors = column.to_frame("list"), []
    truth = column.explode().value_counts().reindex(
        values, fill_value=0
    ) / len(column)
    for epsilon in EPSILONS:
        encoder = SetValuedEncoder(
            epsilon,
            categories={"list": values},
            max_size=4,
            random_state=0,
        )
        encoder.fit(table)
        released = [
            encoder.estimate_frequencies(encoder.transform(table))[
                "frequency"
            ]
            for _ in range(4)
        ]
        errors.append(root_mean_square([one - truth for one in released]))
    return {"set selection": errors}


def list_errors():
    """Draw the errors of the shares of values in lists, by epsilon."""
    by_epsilon(_list_errors, "error of a share", list(lists()))


def _central_means(name):
    table, bounds = numbers()[name]
    errors = [
        root_mean_square(
            [
                DPMean(epsilon, bounds=bounds, random_state=seed)
                .fit(table)
                .mean_[0]
                - table.iloc[:, 0].mean()
                for seed in range(40)
            ]
        )
        / (bounds[1] - bounds[0])
        * 100
        for epsilon in EPSILONS
    ]
    return {"DPMean": errors}


def central_means():
    """Draw errors of means by a curator."""
    by_epsilon(
        _central_means, "error of the mean, % of the bounds", numbers()
    )


def central_counts():
    """Draw noisy counts of Adult beside the true ones."""
    adult = load_adult()
    histogram = DPHistogram(
        0.1, domain=adult.domain.select(["education"]), random_state=0
    ).fit(adult.data[["education"]])
    table = histogram.to_frame().sort_values("count").tail(10)
    true = adult.data["education"].value_counts()
    places = np.arange(len(table))
    axes = plt.subplots(figsize=(7, 4))[1]
    axes.barh(
        places,
        [true[value] for value in table.index],
        alpha=0.35,
        label="true",
    )
    errors = np.array(
        [table["count"] - table["lower"], table["upper"] - table["count"]]
    )
    axes.errorbar(
        table["count"],
        places,
        xerr=errors,
        fmt="o",
        color="C1",
        label="released, epsilon 0.1",
    )
    axes.set(xlabel="people")
    axes.set_yticks(places, table.index)
    axes.legend()


def _scales(name):
    table, bounds = numbers()[name]
    errors = [
        root_mean_square(
            [
                DPStandardScaler(epsilon, bounds=bounds, random_state=seed)
                .fit(table)
                .scale_[0]
                / table.iloc[:, 0].std(ddof=0)
                - 1
                for seed in range(40)
            ]
        )
        * 100
        for epsilon in EPSILONS
    ]
    return {"DPStandardScaler": errors}


def scales():
    """Draw errors of private standard deviations."""
    by_epsilon(_scales, "error of the scale, %", numbers())


def models():
    """Draw the area under the curve of private logistic regressions."""
    adult = load_adult()
    encoder = ColumnTransformer(
        [
            (
                "words",
                OneHotEncoder(
                    categories=[
                        [*adult.domain[name].values] for name in WORDS
                    ]
                ),
                WORDS,
            )
        ],
        sparse_threshold=0,
    )
    X, y = make_classification(
        24_000, 100, n_informative=20, n_redundant=0, random_state=0
    )
    cases = {
        "Adult": (
            encoder.fit_transform(adult.data),
            (adult.target == ">50K").to_numpy().astype(int),
            (0, 1),
        ),
        "100 columns": (X, y, (-5, 5)),
    }
    panels = plt.subplots(1, 2, figsize=(7.4, 3.3))[1]
    for axes, (name, (rows, target, bounds)) in zip(
        panels, cases.items(), strict=True
    ):
        train, test, known, hidden = train_test_split(
            rows, target, random_state=0
        )
        scores = [
            [
                roc_auc_score(
                    hidden,
                    DPLogisticRegression(
                        epsilon,
                        bounds=bounds,
                        classes=[0, 1],
                        random_state=seed,
                    )
                    .fit(train, known)
                    .decision_function(test),
                )
                for seed in range(5)
            ]
            for epsilon in EPSILONS
        ]
        axes.errorbar(
            EPSILONS,
            np.mean(scores, axis=1),
            np.std(scores, axis=1),
            fmt="o-",
            label="DPLogisticRegression",
        )
        reached = roc_auc_score(
            hidden,
            LogisticRegression(max_iter=1000)
            .fit(train, known)
            .decision_function(test),
        )
        axes.axhline(
            reached, color="black", linestyle="--", label="without privacy"
        )
        axes.set_xscale("log")
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axes.minorticks_off()
        axes.set(title=name, xlabel="epsilon (smaller is more private)")
        axes.legend()
    panels[0].set_ylabel("area under the curve")


@cache
def tables():
    """Return a table of each data set, and its domain."""
    adult, wine = load_adult(dropna=True), load_wine(as_frame=True)
    columns = ["age", "education", "sex", "income"]
    bounds = {
        "alcohol": (11, 15),
        "flavanoids": (0, 6),
        "color_intensity": (0, 14),
    }
    domain = {
        name: Interval(*ends, bins=6, real=True)
        for name, ends in bounds.items()
    }
    return {
        "Adult: four columns": (
            adult.frame[columns],
            adult.domain.select(columns),
        ),
        "wine: four columns": (
            wine.data[list(bounds)].assign(target=wine.target),
            Domain(domain | {"target": [0, 1, 2]}),
        ),
    }


def _marginals(name):
    table, domain = tables()[name]
    return {
        label: [
            np.mean(
                [
                    marginal_error(
                        table,
                        DPMarginalSynthesizer(
                            epsilon,
                            domain=domain,
                            marginals=marginals,
                            random_state=seed,
                        )
                        .fit(table)
                        .sample(),
                        domain=domain,
                    )
                    for seed in range(3)
                ]
            )
            for epsilon in EPSILONS
        ]
        for label, marginals in (
            ("auto", "auto"),
            ("independent columns", "independent"),
        )
    }


def synthetic_errors():
    """Draw errors of two-way marginals of synthetic tables."""
    by_epsilon(_marginals, "error of two-way marginals", tables())


@cache
def decisions():
    """Return decisions and groups of each data set, of which a report of the group is made."""
    adult = load_adult(dropna=True)
    rng = np.random.default_rng(0)
    group = pd.Series(rng.choice(["Male", "Female"], 20_000), name="sex")
    rates = group.map({"Male": 0.5, "Female": 0.35})
    generated = pd.Series(
        np.where(rng.random(len(group)) < rates, ">50K", "<=50K")
    )
    return {
        "Adult: income by sex": (
            adult.target,
            adult.data["sex"].astype(str),
        ),
        "generated: 15 points apart": (generated, group),
    }


@cache
def _survey(name):
    """Return a population's answers, and the chances by which people are drawn."""
    if name == "invented":
        rng = np.random.default_rng(0)
        age = rng.integers(18, 90, 100_000)
        answer = np.where(rng.random(100_000) < age / 120, "yes", "no")
    else:
        adult = load_adult().frame
        age = adult["age"].to_numpy()
        is_married = adult["marital-status"] == "Married-civ-spouse"
        answer = np.where(is_married, "yes", "no")
    return answer, age / age.sum()


def survey():
    """Draw a share by epsilon, from a sample in which old people are too many."""
    panels = plt.subplots(1, 2, figsize=(7.6, 3.4), layout="constrained")[
        1
    ]
    for axes, name in zip(panels, ["invented", "Adult"], strict=True):
        answer, chance = _survey(name)
        rng = np.random.default_rng(1)
        places = rng.choice(len(answer), 5_000, p=chance)
        sample = pd.DataFrame({"answer": answer[places]})
        weights = 1 / (5_000 * chance[places])
        for shift, label in (
            (0.94, "weighted"),
            (1.06, "without weights"),
        ):
            rows = []
            for epsilon in EPSILONS:
                encoder = RandomizedResponseEncoder(
                    epsilon,
                    categories={"answer": ["no", "yes"]},
                    random_state=2,
                )
                design = {}
                if label == "weighted":
                    design = {"sample_weight": weights}
                shares = encoder.estimate_frequencies(
                    encoder.fit_transform(sample), **design
                )
                rows.append(shares.loc["yes"])
            table = pd.DataFrame(rows)
            middle = table["frequency"]
            axes.errorbar(
                np.array(EPSILONS) * shift,
                middle,
                yerr=[middle - table["lower"], table["upper"] - middle],
                fmt="o" if label == "weighted" else "s",
                capsize=3,
                label=label,
            )
        truth = (answer == "yes").mean()
        axes.axhline(truth, color="#333333", ls="--", lw=1)
        axes.set_xscale("log")
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axes.minorticks_off()
        axes.set(title=name, xlabel="epsilon", ylabel="share of yes")
    panels[0].legend(frameon=False, fontsize="small")
    return panels[0].figure


@cache
def _report_fits(name, epsilon):
    """Return the coefficient of a reported column: lower, estimate, upper, and that of the naive model."""
    if name == "invented":
        rng = np.random.default_rng(0)
        age = rng.normal(size=10_000)
        is_male = rng.random(10_000) < 1 / (1 + np.exp(-age))
        score = 0.5 * age + 1.2 * is_male - 1
        target = rng.random(10_000) < 1 / (1 + np.exp(-score))
    else:
        adult = load_adult(dropna=True)
        age = (adult.data["age"].to_numpy() - 40) / 10
        is_male = (adult.data["sex"] == "Male").to_numpy()
        target = (adult.target == ">50K").to_numpy()
    people = pd.DataFrame({"sex": np.where(is_male, "m", "f")})
    reports = people
    if epsilon is not None:
        encoder = RandomizedResponseEncoder(
            epsilon, categories={"sex": ["f", "m"]}, random_state=1
        )
        reports = encoder.fit_transform(people)
        model = ReportLogisticRegression(encoder)
        fitted = model.fit(reports.assign(age=age, square=age**2), target)
        row = fitted.summary().loc["sex=m"]
    is_told_male = (reports["sex"] == "m").to_numpy()
    naive = LogisticRegression(C=np.inf)
    naive.fit(np.column_stack([is_told_male, age, age**2]), target)
    if epsilon is None:
        return naive.coef_[0, 0]
    return row["lower"], row["estimate"], row["upper"], naive.coef_[0, 0]


def report_regression():
    """Draw the coefficient of a reported column by epsilon."""
    panels = plt.subplots(1, 2, figsize=(7.6, 3.4), layout="constrained")[
        1
    ]
    epsilons = [0.5, 1, 2, 4]
    for axes, name in zip(panels, ["invented", "Adult"], strict=True):
        fits = np.array(
            [_report_fits(name, epsilon) for epsilon in epsilons]
        )
        lower, estimate, upper, naive = fits.T
        axes.errorbar(
            epsilons,
            estimate,
            yerr=[estimate - lower, upper - estimate],
            fmt="o-",
            capsize=3,
            label="ReportLogisticRegression",
        )
        axes.plot(
            epsilons, naive, "s--", label="reports taken for the truth"
        )
        axes.axhline(
            _report_fits(name, None), color="#333333", ls="--", lw=1
        )
        axes.set_xscale("log")
        axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        axes.minorticks_off()
        axes.set(
            title=name, xlabel="epsilon", ylabel="coefficient of male"
        )
        axes.set_ylim(bottom=0)
    figure = panels[0].figure
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, ncols=2, loc="outside lower center", frameon=False
    )
    return figure


def _truths_with_cheaters(name):
    """Return true answers, and who always says no."""
    rng = np.random.default_rng(0)
    if name == "Adult":
        income = load_adult(dropna=True).target.iloc[:10_000]
        truth = np.where(income == ">50K", "yes", "no")
    else:
        truth = np.where(rng.random(10_000) < 0.25, "yes", "no")
    return truth, (truth == "no") & (rng.random(10_000) < 0.2)


def surveys():
    """Draw the proportion of yes with and without an estimate of cheaters."""
    panels = plt.subplots(1, 2, figsize=(7.6, 3.4), layout="constrained")[
        1
    ]
    epsilons = [1, 2, 4, 6]
    for axes, name in zip(panels, ["invented", "Adult"], strict=True):
        truth, is_cheater = _truths_with_cheaters(name)
        people = pd.DataFrame({"answer": truth})
        rows = {"cheaters estimated": [], "all assumed compliant": []}
        for epsilon in epsilons:
            encoder = RandomizedResponseEncoder(
                categories={"answer": ["no", "yes"]}, random_state=0
            )
            halves = PerHalf(encoder, epsilons=(0.5, epsilon))
            reports = halves.fit_transform(people)
            reports.loc[is_cheater, "answer"] = "no"
            for label, cheaters in zip(rows, ["no", None], strict=True):
                # Without cheaters, the halves differ, as the figure shows.
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    table = halves.estimate_frequencies(
                        reports, cheaters=cheaters
                    )
                rows[label].append(table.loc["yes"])
        for place, (label, estimates) in enumerate(rows.items()):
            table = pd.DataFrame(estimates)
            reach = table["upper"] - table["frequency"]
            axes.errorbar(
                np.array(epsilons) * 1.06**place,
                table["frequency"],
                yerr=reach,
                fmt="os"[place] + "-",
                capsize=3,
                label=label,
            )
        axes.axhline(
            (truth == "yes").mean(), color="#333333", ls="--", lw=1
        )
        axes.set_xscale("log")
        axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        axes.minorticks_off()
        axes.set(
            title=name,
            xlabel="epsilon of the second half",
            ylabel="proportion of yes",
        )
    panels[0].legend(frameon=False, fontsize="small")
    return panels[0].figure


def audits():
    """Draw a fairness metric by epsilon: naive, and debiased with its interval."""
    panels = plt.subplots(1, 2, figsize=(7.6, 3.4))[1]
    common = {"privileged": "Male", "positive_label": ">50K"}
    for axes, (name, (chosen, group)) in zip(
        panels, decisions().items(), strict=True
    ):
        true = fairness_report(chosen, chosen, group, **common).set_index(
            "metric"
        )["value"][METRIC]
        naive, rows = [], []
        for epsilon in EPSILONS:
            encoder = RandomizedResponseEncoder(
                epsilon,
                categories={"sex": ["Female", "Male"]},
                random_state=3,
            )
            reports = encoder.fit_transform(group.to_frame("sex"))
            report = fairness_report(
                chosen, chosen, reports["sex"], **common
            ).set_index("metric")
            naive.append(report["value"][METRIC])
            rows.append(
                debiased_fairness(
                    chosen, chosen, reports, encoder, **common
                )
                .set_index("metric")
                .loc[METRIC]
            )
        table = pd.DataFrame(rows, index=EPSILONS).astype(
            {"value": float, "lower": float, "upper": float}
        )
        axes.axhline(true, color="C2", linestyle=":", label="true")
        axes.plot(
            EPSILONS, naive, "s--", color="C1", label="reports as groups"
        )
        axes.fill_between(
            EPSILONS,
            table["lower"],
            table["upper"],
            color="C0",
            alpha=0.25,
        )
        axes.plot(
            EPSILONS, table["value"], "o-", color="C0", label="debiased"
        )
        axes.set(
            title=name,
            xlabel="epsilon (smaller is more private)",
            xscale="log",
        )
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axes.minorticks_off()
    panels[0].set_ylabel(METRIC.replace("_", " "))
    panels[1].legend()


class _Counter:
    """A source of secure random bytes that counts them."""

    def __init__(self):
        self._source, self.read = SecureSource(), 0

    def bytes(self, size):
        self.read += size
        return self._source.bytes(size)


def _bytes_read(oracle, repeats=50):
    counter = _Counter()
    for _ in range(repeats):
        client_report(oracle.sampler(), 0, counter)
    return counter.read / repeats


def client_bytes():
    """Draw how many random bytes a client reads for a report, by the number of values."""
    sizes = [2, 4, 8, 16, 32, 64, 128, 256]
    axes = plt.subplots()[1]
    kinds = {
        "randomized response": RandomizedResponse,
        "unary encoding": UnaryEncoding,
    }
    kinds |= {
        "subset selection": SubsetSelection,
        "local hashing": LocalHashing,
    }
    for (name, kind), marker in zip(kinds.items(), "os^D", strict=True):
        axes.loglog(
            sizes,
            [_bytes_read(kind(k, 1.0)) for k in sizes],
            marker=marker,
            label=name,
        )
    axes.set(xlabel="number of values", ylabel="random bytes for a report")
    axes.set_xticks(sizes, list(map(str, sizes)))
    axes.minorticks_off()
    axes.legend()


def composition():
    """Draw the epsilon of many releases: added, by zero-concentrated privacy, and composed."""
    counts = np.arange(1, 101)
    some = counts[::11]
    composed = [
        compose([PrivacyGuarantee(0.1)] * count, delta=1e-6).epsilon
        for count in some.tolist()
    ]
    axes = plt.subplots()[1]
    axes.plot(counts, 0.1 * counts, label="pure: the epsilons add up")
    axes.plot(
        counts,
        [zcdp_epsilon(0.1**2 / 2 * count, 1e-6) for count in counts],
        "--",
        label="a filter of rho, delta 1e-6",
    )
    axes.plot(some, composed, "o:", label="declared together, delta 1e-6")
    axes.set(
        xlabel="releases of epsilon 0.1", ylabel="epsilon of all together"
    )
    axes.legend()


def odds():
    """Draw how often the strongest attacker can be right, by epsilon."""
    epsilons = np.linspace(0, 6, 121)
    axes = plt.subplots(figsize=(7, 3))[1]
    axes.plot(
        epsilons,
        100 / (1 + np.exp(-epsilons)),
        label="at most, after a release",
    )
    axes.axhline(50, color="C1", linestyle=":", label="before it")
    for epsilon in (0.1, 1.0, 3.0, 5.0):
        right = 100 / (1 + np.exp(-epsilon))
        axes.plot(epsilon, right, "o", color="C0")
        axes.annotate(
            f"{right:.1f}",
            (epsilon, right),
            textcoords="offset points",
            xytext=(6, -12),
        )
    axes.set(
        xlabel="epsilon", ylabel="right guesses in 100", ylim=(45, 102)
    )
    axes.legend(loc="lower right")


def spending():
    """Draw what statistics of the diabetes data take of a budget."""
    from skdp import DPKBinsDiscretizer, PrivacyLedger

    X = load_diabetes(as_frame=True, scaled=False).data
    ledger = PrivacyLedger(epsilon=1.0)
    DPMean(
        0.3, bounds={"bmi": (15, 50)}, ledger=ledger, random_state=0
    ).fit(X[["bmi"]])
    DPHistogram(
        0.4,
        domain={"age": Interval(15, 85, bins=7)},
        ledger=ledger,
        random_state=0,
    ).fit(X[["age"]])
    DPKBinsDiscretizer(
        0.2,
        n_bins=2,
        bounds={"bp": (50, 150)},
        ledger=ledger,
        random_state=0,
    ).fit(X[["bp"]])
    axes, start = plt.subplots(figsize=(7, 1.8))[1], 0.0
    for number, (label, amount) in enumerate(
        zip(("mean", "histogram", "median"), (0.3, 0.4, 0.2), strict=True)
    ):
        axes.barh(0, amount, left=start, color=f"C{number}", label=label)
        start += amount
    axes.barh(
        0,
        float(ledger.remaining().epsilon),
        left=start,
        fill=False,
        hatch="//",
        label="left",
    )
    axes.set(xlim=(0, 1), yticks=[], xlabel="epsilon")
    axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))


def protected_counts():
    """Draw the shares of high incomes by age, as they are, and with age and sex resampled or in another order."""
    adult = load_adult()
    names = ["age", "sex", "education", "occupation", "income"]
    real = adult.frame[names]
    synthesizer = DPColumnSynthesizer(
        ["age", "sex"],
        0.5,
        delta=1e-6,
        domain=adult.domain.select(names),
        random_state=0,
    )
    resampled = synthesizer.fit_transform(real)
    shuffled = real.copy()
    order = np.random.default_rng(0).permutation(len(real))
    for name in ("age", "sex"):
        shuffled[name] = real[name].to_numpy()[order]
    panels = plt.subplots(1, 2, sharey=True, layout="constrained")[1]
    tables = {"real": real, "resampled": resampled, "shuffled": shuffled}
    for axes, sex in zip(panels, ("Female", "Male"), strict=True):
        for label, rows in tables.items():
            of_sex = rows[rows["sex"] == sex]
            is_high = of_sex["income"] == ">50K"
            shares = is_high.groupby(of_sex["age"] // 5 * 5).mean()
            axes.plot(shares.loc[20:75], ".-", label=label)
        axes.set(xlabel="age", title=sex)
    panels[0].set(ylabel="share above 50K")
    panels[0].legend()


def shapes():
    """Draw the functions of an additive model of Adult."""
    adult = load_adult()
    bounds = {
        "age": (0, 120),
        "hours-per-week": (0, 168),
        "capital-gain": (0, 1e6),
    }
    words = ["education", "marital-status", "sex"]
    model = DPAdditiveClassifier(
        1.0,
        bounds=bounds,
        categories=adult.domain.select(words),
        classes=["<=50K", ">50K"],
        random_state=0,
    )
    model.fit(adult.data[[*bounds, *words]], adult.target)
    ShapeDisplay.from_estimator(model)
