"""A fitted `ReportSynthesizer` as JSON and arrays: the sums of its reports, and the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.archive import reading
from skdp.oracles import check_size
from skdp.synthesis._packing import pack_template, unpack_template
from skdp.synthesis._persistence import ReadArray, read_clique, read_marginal, read_model, read_whole
from skdp.synthesis.reports import MeasuredReports, check_encoder, reported_of

_MOST_REPORTS = 1 << 56


def describe_reports(synthesizer: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Describe what was fitted, as JSON and named arrays."""
    reported, model, scores = synthesizer._reported, synthesizer.model_, synthesizer.pair_scores_
    if check_encoder(synthesizer.encoder).protocol_ is not synthesizer._protocol:
        raise ValueError("ReportSynthesizer: its encoder was changed after fit; fit it again before it is saved")
    places = {name: place for place, name in enumerate(synthesizer.domain_.columns)}
    described = {
        "n_rows": reported.n_rows,
        "sizes": [group.n_reports for group in reported.groups],
        "products": reported.products is not None,
        "template": pack_template(synthesizer._template),
        "cliques": model.tree.cliques,
        "parents": [link.parent for link in model.tree.links],
        "marginals": [
            {"clique": one.clique, "std_error": one.std_error, "groups": None} for one in synthesizer.marginals_
        ],
        "pairs": [[places[name] for name in pair] for pair in scores.index],
        "n_iter": synthesizer.n_iter_,
        "secure": synthesizer.guarantee_.secure,
    }
    arrays = {f"support_{place}": group.support for place, group in enumerate(reported.groups)}
    arrays |= {f"belief_{place}": np.ascontiguousarray(belief) for place, belief in enumerate(model.beliefs)}
    for place, marginal in enumerate(synthesizer.marginals_):
        arrays[f"marginal_{place}"] = np.ascontiguousarray(marginal.counts)
        arrays[f"precision_{place}"] = np.ascontiguousarray(marginal.precision)
    arrays["scores"] = np.ascontiguousarray(scores[["gain", "log_ratio"]].to_numpy(float))
    if reported.products is not None:
        arrays |= {"products": reported.products, "both": reported.both}
    return described, arrays


def restore_reports(synthesizer: Any, described: Mapping[str, Any], array: ReadArray) -> None:
    """Make a synthesizer fitted again, as `describe_reports` describes."""
    with reading("encoder"):
        encoder = check_encoder(synthesizer.encoder)
    with reading("reports"):
        n_rows = check_size(described["n_rows"], name="n_rows", least=1, most=_MOST_REPORTS)
        sizes = [check_size(size, name="sizes", least=0, most=n_rows) for size in described["sizes"]]
        _, empty = reported_of(encoder, n_rows, [np.zeros(0, np.int64)] * len(sizes), sizes)
        support = [
            _finite(array(f"support_{place}", (group.oracle.k,)), "<i8") for place, group in enumerate(empty.groups)
        ]
        domain, reported = reported_of(encoder, n_rows, support, sizes)
        if described["products"] is True:
            both = _finite(array("both", (len(sizes),) * 2), "<i8")
            if both.min() < 0 or (both > np.minimum.outer(sizes, sizes)).any():
                raise ValueError("the numbers of reports do not fit each other")
            products = _finite(array("products", (sum(domain.sizes),) * 2), "<f8")
            reported = replace(reported, products=products, both=both)
    with reading("template"):
        template = unpack_template(described["template"], domain.columns, len(domain.columns))
    with reading("model"):
        model = read_model(array, described, domain.sizes)
        n_iter = read_whole(described["n_iter"], 1, 1 << 32)
    with reading("marginals"):
        marginals = []
        for place, about in enumerate(described["marginals"]):
            marginal = read_marginal(array, place, about, domain.sizes)
            precision = _finite(array(f"precision_{place}", (marginal.counts.size,) * 2), "<f8")
            marginals.append(replace(marginal, precision=precision))
        pairs = [read_clique(pair, len(domain.sizes)) for pair in described["pairs"]]
        scores = dict(zip(pairs, map(tuple, _finite(array("scores", (len(pairs), 2)), "<f8").tolist()), strict=True))
    chosen = [marginal.clique for marginal in marginals if len(marginal.clique) > 1]
    measured = MeasuredReports(model, marginals, scores, chosen, n_iter)
    is_secure = described.get("secure") is not False
    synthesizer._set_fitted(encoder, domain, reported, measured, template, is_secure=is_secure)


def _finite(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    if array.dtype != np.dtype(dtype):
        raise ValueError("an array has another dtype")
    if not np.isfinite(array).all():
        raise ValueError("an array holds numbers that are not finite")
    return np.ascontiguousarray(array)
