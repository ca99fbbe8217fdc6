"""Results of audits, replays and attacks, compared with the guarantees.

- `transformers`: `audit_epsilon` of correct transformers. `lower` is the lower bound divided by the guarantee, always
  below 1. `exact` is the exact privacy loss of the channel divided by the guarantee.
- `faults`: the same for releases with a larger privacy loss than they state. `rejected` is 1 if the audit detects this.
- `replays`: `replay_release` of central estimators on neighboring tables that attain the sensitivity. `loss` is the
  privacy loss of all draws divided by the guarantee, at most 1, and `findings` is the number of contradictions.
- `attacks`: the accuracy of `attribute_inference` on the reports of Adult, and its bound.
- `oracles`: the exact accuracy of the best guess from one report.
"""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pandas as pd
from _tasks import Task

# Audits.


def load_values(quick: bool) -> dict[str, Any]:
    """Return numbers of values and of draws."""
    n_draws = 1_000 if quick else 2_000
    sizes = (3,) if quick else (3, 8)
    return {f"{k} values": partial(tuple, (k, n_draws)) for k in sizes}


def audit_transformer(name: str, table: Any, epsilon: float, seed: int) -> Any:
    """Audit an encoder of one column."""
    import skdp
    from skdp.evaluation import audit_epsilon

    k, n_draws = table
    values = [f"v{code}" for code in range(k)]
    encoder = getattr(skdp, name)(epsilon, categories=[values])
    return audit_epsilon(encoder, n_draws=n_draws, random_state=seed)


def audit_perturber(table: Any, epsilon: float, seed: int) -> Any:
    """Audit a perturber of numbers."""
    from skdp import NumericPerturber
    from skdp.evaluation import audit_epsilon

    k, n_draws = table
    perturber = NumericPerturber(epsilon, bounds={"x": (0, 10)}, grid_size=2 * k)
    return audit_epsilon(perturber, n_draws=n_draws, random_state=seed)


TRANSFORMER_METHODS: dict[str, Any] = {
    name: partial(audit_transformer, name)
    for name in (
        "RandomizedResponseEncoder",
        "UnaryEncodingTransformer",
        "SubsetSelectionEncoder",
        "LocalHashingEncoder",
    )
}
TRANSFORMER_METHODS["NumericPerturber"] = audit_perturber


def score_audit(table: Any, audit: Any) -> dict[str, float]:
    """Return the bounds, divided by the guarantee."""
    scores = {
        "lower": audit.epsilon_lower / audit.epsilon_claimed,
        "rejected": float(audit.epsilon_lower > audit.epsilon_claimed),
    }
    if audit.epsilon_exact is not None:
        scores["exact"] = audit.epsilon_exact / audit.epsilon_claimed
    return scores


def load_excess(quick: bool) -> dict[str, Any]:
    """Return ratios of the loss to the claim, with numbers of draws."""
    n_draws = 1_000 if quick else 2_000
    factors = (2.0,) if quick else (1.5, 2.0)
    return {
        f"loss {factor} times the claim": partial(tuple, (factor, n_draws))
        for factor in factors
    }


def audit_response(table: Any, epsilon: float, seed: int) -> Any:
    """Audit randomized response with a larger loss than it claims."""
    from skdp import RandomizedResponseEncoder
    from skdp.evaluation import audit_epsilon

    factor, n_draws = table
    encoder = RandomizedResponseEncoder(factor * epsilon, categories=[["a", "b", "c"]])
    return audit_epsilon(encoder, epsilon=epsilon, n_draws=n_draws, random_state=seed)


def audit_mean(table: Any, epsilon: float, seed: int) -> Any:
    """Audit a mean with a larger loss than it claims."""
    from skdp import DPMean
    from skdp.evaluation import audit_epsilon

    factor, n_draws = table
    rows = pd.DataFrame({"x": [1.0, 1.0, 0.0]})
    seeds = count(seed << 32)

    def release(table: pd.DataFrame) -> Any:
        """Return a mean with a seed of its own."""
        mean = DPMean(factor * epsilon, bounds={"x": (0, 1)}, random_state=next(seeds))
        return mean.fit(table).mean_

    return audit_epsilon(
        release, [rows, rows.iloc[1:]], epsilon=epsilon, n_draws=n_draws // 4
    )


# Replays.

NUMBERS = pd.DataFrame(
    {
        "x": [0.0, 100.0, 100.0, 37.5, 50.0, 0.0],
        "z": [100.0, 0.0, 100.0, 0.0, 50.0, 100.0],
    }
)
CODES = pd.DataFrame({"a": [0, 1, 2, 2, 0, 1], "b": [1, 0, 1, 1, 0, 1]})


def load_neighbors(quick: bool) -> dict[str, Any]:
    """Return the number of the row that one table lacks."""
    rows = (1,) if quick else (1, 2, 5)
    return {f"without row {row}": partial(int, row) for row in rows}


def replay(
    name: str, options: dict[str, Any], table: int, epsilon: float, seed: int
) -> Any:
    """Replay the draws of an estimator on a table without one row."""
    import skdp
    from skdp.testing import replay_release

    rows = CODES if "domain" in options else NUMBERS
    curator = getattr(skdp, name)(epsilon=epsilon, **options)
    return replay_release(curator, rows, rows.drop(index=table), random_state=seed)


BOUNDS = {"bounds": {"x": (0, 100), "z": (0, 100)}}
DOMAIN = {"domain": {"a": [0, 1, 2], "b": [0, 1]}}
CURATORS: dict[str, dict[str, Any]] = {
    "DPMean": BOUNDS,
    "DPStandardScaler": BOUNDS,
    "DPRobustScaler": BOUNDS,
    "DPQuantileTransformer": BOUNDS,
    "DPPCA": BOUNDS | {"n_components": 1},
    "DPHistogram": DOMAIN,
    "DPMarginalSynthesizer": DOMAIN,
}


def score_replay(table: Any, replay: Any) -> dict[str, float]:
    """Return the loss, divided by the guarantee, and the number of findings."""
    loss = replay.epsilon / replay.guarantee.epsilon
    return {"loss": loss, "findings": len(replay.findings)}


# Attacks.

NAMES = ["age", "education", "hours-per-week", "occupation"]


def load_people(quick: bool) -> dict[str, Any]:
    """Return rows of Adult and the attacked column."""
    return {
        column: partial(load_adult_rows, column, 300 if quick else 1_500)
        for column in ("sex", "relationship")
    }


def load_adult_rows(column: str, n_rows: int) -> tuple[pd.DataFrame, Any]:
    """Return rows of Adult, and the declared values of the column to guess."""
    from skdp.datasets import load_adult

    adult = load_adult(dropna=True)
    rows = adult.data[[column, *NAMES]].sample(
        n_rows, random_state=0, ignore_index=True
    )
    return rows, adult.domain.select([column])


def attack_reports(name: str, table: Any, epsilon: float, seed: int) -> Any:
    """Predict a reported column from its report and the other columns."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    import skdp
    from skdp.evaluation import attribute_inference

    rows, domain = table
    column = rows.columns[0]
    encoder = getattr(skdp, name)(epsilon, categories=domain, random_state=seed)
    reports = encoder.fit_transform(rows[[column]])
    released = pd.concat([reports.astype(str), rows[NAMES]], axis=1)
    attacker = make_pipeline(
        OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=200)
    )
    return attribute_inference(
        released,
        rows[column],
        encoder=encoder,
        estimator=attacker,
        random_state=seed,
    )


def score_attack(table: Any, attack: Any) -> dict[str, float]:
    """Return the accuracies of the attacker and the bound for the report alone."""
    return {
        "accuracy": attack.accuracy,
        "accuracy_without_report": attack.accuracy_without_report,
        "bayes_bound": attack.bayes_bound,
    }


def load_priors(quick: bool) -> dict[str, Any]:
    """Return distributions of the true values."""
    sizes = (3,) if quick else (3, 10)
    return {f"{k} skewed values": partial(make_prior, k) for k in sizes}


def make_prior(k: int) -> Any:
    """Return proportions that are inversely proportional to the rank."""
    shares = 1 / np.arange(1, k + 1)
    return shares / shares.sum()


def guess_report(name: str, table: Any, epsilon: float, seed: int) -> float:
    """Return the exact accuracy of the best guess."""
    from skdp import oracles

    return float(getattr(oracles, name)(len(table), epsilon).guess_accuracy(table))


TASKS = {
    "transformers": Task(load_values, TRANSFORMER_METHODS, score_audit, (1.0, 3.0), 3),
    "faults": Task(
        load_excess,
        {"randomized response": audit_response, "mean": audit_mean},
        score_audit,
        epsilons=(1.0,),
        n_seeds=4,
    ),
    "replays": Task(
        load_neighbors,
        {name: partial(replay, name, options) for name, options in CURATORS.items()},
        score_replay,
        epsilons=(1.0,),
        n_seeds=1,
    ),
    "attacks": Task(
        load_people,
        {
            name: partial(attack_reports, name)
            for name in ("RandomizedResponseEncoder", "UnaryEncodingTransformer")
        },
        score_attack,
        epsilons=(1.0, 3.0),
        n_seeds=3,
    ),
    "oracles": Task(
        load_priors,
        {
            name: partial(guess_report, name)
            for name in ("RandomizedResponse", "UnaryEncoding", "SubsetSelection")
        },
        lambda table, accuracy: {"accuracy": accuracy},
        epsilons=(1.0, 3.0),
        n_seeds=1,
    ),
}
