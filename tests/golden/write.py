"""Write the files of a release, which later versions must read: ``python write.py FOLDER``, with this release.

They are written once, when a version is released. `expected.json` contains the results of that version.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline, make_pipeline

import skdp
from skdp import privacy_statement
from skdp.privacy import Rho

PEOPLE = pd.DataFrame({"sex": ["f", "m", "m"] * 40, "job": ["clerk", "cook"] * 60, "age": np.arange(120) % 60 + 20})
DOMAIN = skdp.Domain(
    {"sex": ["f", "m"], "job": ["clerk", "cook", None], "age": skdp.Interval(20, 80, bins=6)}, constraints=["age >= 20"]
)
SEX, AGE = PEOPLE[["sex"]], PEOPLE[["age"]]
WEIGHTS = np.arange(120) % 3 / 2
VISITS = PEOPLE.assign(person=np.arange(120) % 30, day=np.arange(120) // 30)
VISITS_DOMAIN = DOMAIN | skdp.Domain({"day": skdp.Interval(0, 3)})
TABLES = {
    "inferred": SEX,
    "numbers": AGE,
    "rappor": SEX,
    "sets": pd.DataFrame({"job": [["clerk"], ["cook", "clerk"], []] * 40}),
    "table": PEOPLE[["sex", "age"]],
}
ILL = pd.Series(np.arange(120) % 2, name="ill")


def amounts(guarantee):
    return [guarantee.epsilon, guarantee.delta, guarantee.rho, guarantee.relation, guarantee.trust, guarantee.unit]


def encoders():
    declared = {"categories": DOMAIN.select(["sex", "job"]), "random_state": 0}
    return {
        "randomized_response": skdp.RandomizedResponseEncoder(1.0, strategy="joint", **declared),
        "unary": skdp.UnaryEncodingTransformer(1.0, **declared),
        "subset": skdp.SubsetSelectionEncoder(1.0, **declared),
        "hashing": skdp.LocalHashingEncoder(1.0, **declared),
        "permanent": skdp.UnaryEncodingTransformer(
            1.0, memoize=True, secret_key=bytes(range(32)), categories=DOMAIN.select(["sex", "job"])
        ),
        "inferred": skdp.RandomizedResponseEncoder(1.0, random_state=0),
        "numbers": skdp.NumericPerturber(1.0, bounds={"age": (20, 80)}, random_state=0),
        "rappor": skdp.RapporEncoder(n_bits=8, random_state=0),
        "sets": skdp.SetValuedEncoder(1.0, categories={"job": ["clerk", "cook"]}, max_size=2, random_state=0),
        "table": skdp.LocalTableEncoder(1.0, categories={"sex": ["f", "m"]}, bounds={"age": (20, 80)}, random_state=0),
    }


def found_domain():
    return skdp.discover_domain(PEOPLE, 3.0, 1e-3, random_state=0)


def curators():
    options = {"random_state": 0}
    return {
        "mean": skdp.DPMean(1.0, bounds=(20, 80), max_rows_per_person=2, **options).fit(
            AGE, person=np.arange(120) // 2
        ),
        "histogram": skdp.DPHistogram(Rho(0.1, delta=1e-9), domain=DOMAIN.select(["sex"]), **options).fit(SEX),
        "pipeline": make_pipeline(
            skdp.DPStandardScaler(1.0, bounds=(20, 80), **options),
            skdp.DPLogisticRegression(1.0, bounds=(-3, 3), classes=[0, 1], **options),
        ).fit(AGE, ILL),
        "minmax": skdp.DPMinMaxScaler(bounds=(20, 80)).fit(AGE),
        "synthesizer": skdp.DPMarginalSynthesizer(1.0, domain=DOMAIN, **options).fit(PEOPLE),
        "found_mean": skdp.DPMean(1.0, bounds=found_domain(), **options).fit(AGE),
        "columns": skdp.DPColumnSynthesizer(["sex"], domain=DOMAIN, **options).fit(PEOPLE),
        "medians": skdp.DPGroupBy(
            1.0,
            by="sex",
            keys=DOMAIN.select(["sex"]),
            statistics=["count", "median"],
            bounds={"age": (20, 80)},
            **options,
        ).fit(PEOPLE[["sex", "age"]]),
        "weighted": skdp.DPMean(1.0, bounds=(20, 80), max_weight=1.0, **options).fit(AGE, sample_weight=WEIGHTS),
        "levels": skdp.DPHistogram(
            1.0,
            domain=DOMAIN.select(["job"]),
            levels={"place": {"clerk": "office", "cook": "kitchen", None: None}},
            **options,
        ).fit(PEOPLE[["job"]]),
        "ridge": skdp.DPRidge(1.0, bounds=(20, 80), target_bounds=(0, 1), **options).fit(AGE, ILL),
        "linked": skdp.DPLinkedSynthesizer(
            1.0,
            domain=VISITS_DOMAIN,
            person="person",
            max_rows_per_person=4,
            order_by="day",
            person_columns=["sex"],
            **options,
        ).fit(VISITS),
        "deviations": skdp.DPGroupBy(
            1.0,
            by="sex",
            keys=DOMAIN.select(["sex"]),
            statistics=["count", "mean", "std"],
            bounds={"age": (20, 80)},
            totals=True,
            **options,
        ).fit(PEOPLE[["sex", "age"]]),
        "coefficients": skdp.DPLinearRegression(
            1.0, delta=1e-6, bounds=(20, 80), target_bounds=(0, 1), max_weight=1.0, **options
        ).fit(AGE, ILL, sample_weight=WEIGHTS),
        "additive": skdp.DPAdditiveClassifier(
            1.0, categories=DOMAIN.select(["sex"]), bounds=(20, 80), classes=[0, 1], **options
        ).fit(PEOPLE[["sex", "age"]], ILL),
        "dropped": make_pipeline(
            skdp.DPOneHotEncoder(categories=DOMAIN.select(["sex", "job"]), drop="first"),
            skdp.DPLogisticRegression(1.0, bounds=DOMAIN.select(["sex", "job"]), classes=[0, 1], **options),
        ).fit(PEOPLE[["sex", "job"]], ILL),
        "found_bins": skdp.DPMarginalSynthesizer(
            1.0, domain=skdp.Domain({"age": skdp.Interval(20, 80), "job": ["clerk", "cook"]}), **options
        ).fit(PEOPLE[["age", "job"]]),
    }


def write_encoder(folder, name, encoder):
    """Write the protocol, the reports, a tally and the model of an encoder; return its results."""
    table = TABLES.get(name, PEOPLE[["sex", "job"]])
    permanent = {"person": np.arange(len(table))} if name == "permanent" else {}
    reports = encoder.fit_transform(table, **permanent)
    (folder / f"{name}.protocol.json").write_text(encoder.to_json(), encoding="utf-8")
    reports.to_parquet(folder / f"{name}.reports.parquet")
    tally = encoder.tally(reports)
    (folder / f"{name}.tally.json").write_text(tally.to_json(), encoding="utf-8")
    if name != "permanent":  # a model has no key
        skdp.save(encoder, folder / f"{name}.skops")
    result = {"guarantee": amounts(encoder.guarantee_), "columns": list(reports.columns)}
    if name not in TABLES:
        result["counts"] = encoder.estimate_counts(tally)["count"].tolist()
    return result


def write_ledgers(folder):
    """Write ledgers with charges; return their sums."""
    budgets = {
        "epsilon": {"epsilon": 3.0, "delta": 1e-6},
        "rho": {"rho": 1.0, "relation": "add_remove"},
        "columns": {"mu": 2.0, "relation": "replace_values", "columns": ["sex", "job"]},
    }
    results = {}
    for name, budget in budgets.items():
        ledger = skdp.PrivacyLedger(path=folder / f"{name}.ledger.sqlite", **budget)
        relation = budget.get("relation")
        scope = ("sex", "job") if relation == "replace_values" else ()
        options = {"relation": relation, "trust": "central"} if relation else {}
        for epsilon in (0.1, 0.2, 0.1):
            ledger.charge(skdp.PrivacyGuarantee(epsilon, scope=scope, **options), "release")
        results[name] = {"spent": list(ledger.spent), "balance": ledger.balance().to_numpy().ravel().tolist()}
    return results


def main(target):
    folder = Path(target)
    folder.mkdir(exist_ok=True)
    results = {name: write_encoder(folder, name, encoder) for name, encoder in encoders().items()}
    for name, curator in curators().items():
        skdp.save(curator, folder / f"{name}.skops")
        last = curator[-1] if isinstance(curator, Pipeline) else curator
        results[name] = {"guarantee": amounts(last.guarantee_)}
        results[name]["steps"] = [amounts(step.guarantee) for step in privacy_statement(curator).steps]
        if name == "pipeline":
            results[name]["probabilities"] = curator.predict_proba(AGE)[:, 1].tolist()
        if hasattr(curator, "to_frame"):
            results[name]["numbers"] = curator.to_frame().select_dtypes("number").to_numpy().ravel().tolist()
    found = found_domain()
    for name, domain in {"declared": DOMAIN, "found": found}.items():
        (folder / f"{name}.domain.toml").write_text(domain.to_toml(), encoding="utf-8")
        results[f"domain {name}"] = {"columns": list(domain.columns), "sizes": list(map(int, domain.sizes))}
    results["domain found"]["guarantee"] = amounts(found.guarantee)
    results["ledgers"] = write_ledgers(folder)
    guarantee = skdp.PrivacyGuarantee(0.5, delta=1e-9, rho=0.01, scope=("sex", 1), max_rows_per_person=3)
    (folder / "guarantee.json").write_text(guarantee.to_json(), encoding="utf-8")
    (folder / "statement.json").write_text(privacy_statement(curators()["pipeline"]).to_json(), encoding="utf-8")
    (folder / "expected.json").write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
