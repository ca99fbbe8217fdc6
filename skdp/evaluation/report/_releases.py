"""The releases of the report: what they reveal, and how close synthetic rows are to the table."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.model_selection import train_test_split

from skdp.evaluation.attacks import EXACT, AttackResult, attribute_inference, bayes_accuracy
from skdp.evaluation.report._models import score
from skdp.evaluation.report._study import Study
from skdp.local import RandomizedResponseEncoder
from skdp.metrics import marginal_error, train_on_synthetic
from skdp.synthesis import DPMarginalSynthesizer

_ATTACKED_ROWS = 4_000
_ATTACK_COINS, _SYNTHESIS_COINS = 2, 3  # the seeds of the parts of the study


def attacked_column(study: Study) -> Any:
    """Choose the protected column to attack: the sensitive one, otherwise the first with several values."""
    if study.sensitive is not None:
        return study.sensitive
    return next((name for name in study.columns if study.frame[name].nunique(dropna=False) > 1), None)


def attack_releases(study: Study, advance: Callable[[], Any]) -> dict[float, AttackResult]:
    """Guess a protected column from the release: the reports, and all other columns unprotected."""
    attacked = attacked_column(study)
    # One tree per value: use fewer rows if there are many values.
    most = max(1_000, min(_ATTACKED_ROWS, 20 * _ATTACKED_ROWS // study.domain.select([attacked]).size))
    rows = study.frame.sample(min(len(study.frame), most), random_state=0)
    y = None if study.target is None else rows[study.target]

    def attack(epsilon: float) -> AttackResult:
        encoder = study.encoder(epsilon, _ATTACK_COINS)
        reports = encoder.transform(rows[study.columns])
        released = rows[study.features.columns].assign(**{name: reports[name] for name in study.columns})
        seed = study.seed(_ATTACK_COINS, 100)
        result = attribute_inference(released, y, rows[[attacked]], encoder=encoder, cv=3, random_state=seed)
        exact = _best_guess(encoder, rows[study.columns], attacked)
        return result if exact is None else replace(result, bayes_bound=exact, bound=EXACT)

    results = {}
    attacks = Parallel(n_jobs=study.n_jobs, return_as="generator")(delayed(attack)(one) for one in study.epsilons)
    for epsilon, result in zip(study.epsilons, attacks, strict=True):
        results[epsilon] = result
        advance()
    return results


def _best_guess(encoder: RandomizedResponseEncoder, rows: pd.DataFrame, attacked: Any) -> float | None:
    """Return the share of correct best guesses of a column from the joint report of all protected ones."""
    domain = encoder.domain_
    cells = domain.join(domain.encode([rows[name] for name in domain.columns]))
    prior = np.bincount(cells.astype(np.intp), minlength=domain.size) / len(rows)
    groups = np.unravel_index(np.arange(domain.size), domain.sizes)[list(domain.columns).index(attacked)]
    return bayes_accuracy(encoder.oracles_[0], prior, groups=groups)


@dataclass(frozen=True)
class Synthesis:
    """Synthetic tables and their errors."""

    curve: pd.DataFrame
    real: pd.DataFrame
    synthetic: pd.DataFrame


def synthesize(study: Study, delta: float, advance: Callable[[], Any]) -> Synthesis:
    """Synthesise the declared columns at each epsilon."""
    table = study.frame[list(study.domain.columns)]
    real, test = (
        (table, None)
        if study.target is None
        else train_test_split(table, test_size=0.25, random_state=0, stratify=study.y)
    )
    curve: list[tuple[Any, ...]] = []
    for index, epsilon in enumerate(study.epsilons):
        synthesizer = DPMarginalSynthesizer(
            epsilon, delta=delta, domain=study.domain, random_state=study.seed(_SYNTHESIS_COINS, index)
        )
        made = synthesizer.fit(real).sample(len(real))
        if epsilon == study.example:
            example = made
        for order in range(1, min(2, len(table.columns)) + 1):
            error = marginal_error(real, made, order=order, domain=study.domain)
            curve.append((epsilon, f"mean error of {order}-way marginals", error))
        if test is not None and len(table.columns) > 1:
            curve += _train(study, epsilon, made, real, test, first=index == 0)
        advance()
    rows = pd.DataFrame(curve, columns=["epsilon", "metric", "value"])
    return Synthesis(rows.assign(repeat=0, fold=0, group="all"), real, example)


def _train(
    study: Study, epsilon: float, made: pd.DataFrame, real: pd.DataFrame, test: pd.DataFrame, *, first: bool
) -> list[tuple[Any, ...]]:
    """Score a model that was trained on synthetic rows, and once on real ones."""
    data = {"synthetic": made, "real_test": test} | ({"real_train": real} if first else {})
    with warnings.catch_warnings():
        # At a tiny epsilon all rows may be of one class; the score, an AUC of 0.5, shows it.
        warnings.filterwarnings("ignore", "all rows of synthetic are of one class", UserWarning)
        model = study.model(protected="as they are")  # which is synthetic
        scores = train_on_synthetic(model, target=study.target, scoring=score, **data)
    places = {"real": float("inf"), "synthetic": epsilon}
    return [
        (places[str(name)], f"{metric}, trained on synthetic rows", value)
        for name, row in scores.iterrows()
        for metric, value in row.items()
    ]
