"""The map of the page Choose: one tree of questions, drawn as SVG in a wide and in a narrow form.

Each answer leads to a page of the site. The links are ordinary links of the SVG: they can be reached by keyboard. The
colours are variables of the theme, for light and dark.
"""

from __future__ import annotations

from html import escape
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

Node = tuple[str, str, list[Any]]
"""Label, kind (question, answer, group, leaf) and children; of a leaf, the page instead of children."""


def leaf(
    label: str, page: str, note: str = ""
) -> tuple[str, str, str, str]:
    """Return a leaf: an object and its page."""
    return (label, "leaf", page, note)


def skdp_leaf(name: str, note: str = "") -> tuple[str, str, str, str]:
    """Return the leaf of a public object."""
    return leaf(
        name.rpartition(".")[2], f"api/generated/{name}.html", note
    )


TREE: Node = (
    "Who is trusted with the table?",
    "question",
    [
        (
            "No one: reports (local)",
            "answer",
            [
                (
                    "Categories, once",
                    "answer",
                    [
                        skdp_leaf(
                            "skdp.RandomizedResponseEncoder", "few values"
                        ),
                        skdp_leaf(
                            "skdp.FrequencyOracleEncoder", "more values"
                        ),
                        skdp_leaf(
                            "skdp.LocalHashingEncoder", "very many values"
                        ),
                        skdp_leaf(
                            "skdp.HeavyHitters", "an open vocabulary"
                        ),
                        skdp_leaf(
                            "skdp.recommend_plan", "several columns"
                        ),
                    ],
                ),
                (
                    "Numbers, once",
                    "answer",
                    [
                        skdp_leaf(
                            "skdp.NumericPerturber", "means, distributions"
                        )
                    ],
                ),
                (
                    "A whole table",
                    "answer",
                    [
                        skdp_leaf(
                            "skdp.LocalTableEncoder", "the least error"
                        ),
                    ],
                ),
                (
                    "Lists, once",
                    "answer",
                    [
                        skdp_leaf(
                            "skdp.SetValuedEncoder", "lists of values"
                        ),
                    ],
                ),
                (
                    "Again and again",
                    "answer",
                    [
                        skdp_leaf(
                            "skdp.RapporEncoder", "two rounds of noise"
                        ),
                        leaf(
                            "memoize=True",
                            "api/repeated.html",
                            "permanent reports",
                        ),
                    ],
                ),
                (
                    "A model",
                    "answer",
                    [
                        skdp_leaf(
                            "skdp.PosteriorFeatures", "learn from reports"
                        ),
                        skdp_leaf(
                            "skdp.OnFitOnly", "predict on true rows"
                        ),
                        skdp_leaf(
                            "skdp.ReportLogisticRegression", "coefficients"
                        ),
                    ],
                ),
            ],
        ),
        (
            "A curator: statistics (central)",
            "answer",
            [
                (
                    "Counts, numbers",
                    "answer",
                    [
                        skdp_leaf("skdp.DPHistogram", "counts, ranges"),
                        skdp_leaf("skdp.DPMean", "means"),
                        skdp_leaf("skdp.DPGroupBy", "both, by group"),
                        leaf(
                            "other statistics",
                            "api/curator_statistics.html",
                            "any function",
                        ),
                    ],
                ),
                (
                    "Steps before a model",
                    "answer",
                    [
                        skdp_leaf("skdp.DPStandardScaler", "scaling"),
                        skdp_leaf(
                            "skdp.DPRobustScaler", "scaling by quantiles"
                        ),
                        skdp_leaf(
                            "skdp.DPSimpleImputer", "missing values"
                        ),
                        skdp_leaf("skdp.DPKBinsDiscretizer", "bins"),
                        skdp_leaf(
                            "skdp.DPOneHotEncoder", "categories as columns"
                        ),
                        skdp_leaf(
                            "skdp.DPTargetEncoder", "categories as numbers"
                        ),
                        skdp_leaf("skdp.DPPCA", "few columns of many"),
                        skdp_leaf(
                            "skdp.DPSelectKBest", "the columns that matter"
                        ),
                    ],
                ),
                (
                    "A private model",
                    "answer",
                    [
                        skdp_leaf(
                            "skdp.DPLogisticRegression",
                            "classes from numbers",
                        ),
                        skdp_leaf(
                            "skdp.DPCategoricalNB", "classes from words"
                        ),
                        skdp_leaf(
                            "skdp.DPLinearRegression",
                            "a number from numbers",
                        ),
                    ],
                ),
                (
                    "Rows to share",
                    "answer",
                    [
                        skdp_leaf(
                            "skdp.DPMarginalSynthesizer",
                            "a synthetic table",
                        ),
                        skdp_leaf(
                            "skdp.SyntheticResampler",
                            "train on synthetic rows",
                        ),
                    ],
                ),
            ],
        ),
        (
            "Either: what did it cost, does it hold?",
            "answer",
            [
                (
                    "Budgets",
                    "answer",
                    [
                        skdp_leaf(
                            "skdp.PrivacyLedger", "several releases"
                        ),
                        skdp_leaf(
                            "skdp.privacy_statement",
                            "a pipeline, before and after fit",
                        ),
                    ],
                ),
                (
                    "Measurements",
                    "answer",
                    [
                        skdp_leaf(
                            "skdp.evaluation.privacy_curve",
                            "accuracy by epsilon",
                        ),
                        skdp_leaf(
                            "skdp.metrics.debiased_fairness", "fairness"
                        ),
                        skdp_leaf(
                            "skdp.evaluation.attribute_inference",
                            "attacks",
                        ),
                        skdp_leaf(
                            "skdp.evaluation.audit_epsilon", "audits"
                        ),
                    ],
                ),
                (
                    "More",
                    "answer",
                    [
                        leaf(
                            "large tables",
                            "api/engines.html",
                            "files, DuckDB, Spark …",
                        ),
                        leaf(
                            "every public object",
                            "api/index.html",
                            "the API by task",
                        ),
                    ],
                ),
            ],
        ),
    ],
)

ROW = 44
COLUMNS = (0, 180, 400, 605)
WIDTHS = (145, 180, 170, 375)


def wide_map() -> str:
    """Draw the tree from left to right."""
    parts: list[str] = []
    height = _place(TREE, 0, 0, parts)[0] * ROW
    return _svg("wide", COLUMNS[3] + WIDTHS[3] + 2, height + 8, parts)


def _place(
    node: Any, depth: int, row: int, parts: list[str]
) -> tuple[int, float]:
    """Draw a node and what is under it; return the next free row, and the middle of the node."""
    if node[1] == "leaf":
        middle = (row + 0.5) * ROW
        parts.append(_link(node, COLUMNS[3], middle, WIDTHS[3], 36))
        return row + 1, middle
    first, middles = row, []
    for child in node[2]:
        row, middle = _place(child, depth + 1, row, parts)
        middles.append(middle)
    middle = (first + row) / 2 * ROW
    x, width = COLUMNS[depth] + 1, WIDTHS[depth]
    for end in middles:
        left, right = x + width, COLUMNS[depth + 1]
        half = (left + right) / 2
        parts.insert(
            0,
            f'<path class="edge" d="M{left} {middle:g} C{half:g} {middle:g} {half:g} {end:g} {right} {end:g}"/>',
        )
    parts.append(_box(node, x, middle, width))
    return row, middle


def _box(node: Any, x: float, middle: float, width: float) -> str:
    lines = _wrap(node[0], width / 8.8)
    height = 18 * len(lines) + 14
    text = "".join(
        f'<tspan x="{x + width / 2:g}" dy="{0 if index == 0 else 18}">{escape(line)}</tspan>'
        for index, line in enumerate(lines)
    )
    start = middle - 9 * (len(lines) - 1) + 5
    return (
        f'<g class="{node[1]}"><rect x="{x}" y="{middle - height / 2:g}" width="{width}" height="{height}" rx="6"/>'
        f'<text text-anchor="middle" y="{start:g}">{text}</text></g>'
    )


def _link(
    node: Any, x: float, middle: float, width: float, height: float
) -> str:
    label, _, page, note = node
    note_text = f'<text class="note" text-anchor="end" x="{x + width - 10}" y="{middle + 4:g}">{escape(note)}</text>'
    return (
        f'<a href="{escape(page)}" aria-label="{escape(f"{label}: {note}")}">'
        f'<rect x="{x}" y="{middle - height / 2:g}" width="{width}" height="{height}" rx="6"/>'
        f'<text x="{x + 10}" y="{middle + 5:g}">{escape(label)}</text>{note_text}</a>'
    )


def narrow_map() -> str:
    """Draw the tree as an indented list, for small screens."""
    parts: list[str] = []
    y = 6.0
    open_lines: dict[int, float] = {}

    def walk(node: Any, depth: int) -> None:
        nonlocal y
        x, is_leaf = 14 * depth + 1, node[1] == "leaf"
        height = 46 if is_leaf else 34
        middle = y + height / 2
        if depth:
            start = open_lines[depth - 1]
            parts.insert(
                0,
                f'<path class="edge" d="M{x - 7} {start:g} V{middle:g} H{x}"/>',
            )
        if is_leaf:
            label, _, page, note = node
            parts.append(
                f'<a href="{escape(page)}" aria-label="{escape(f"{label}: {note}")}">'
                f'<rect x="{x}" y="{y:g}" width="{339 - x}" height="{height}" rx="6"/>'
                f'<text x="{x + 10}" y="{y + 20:g}">{escape(label)}</text>'
                f'<text class="note" x="{x + 10}" y="{y + 37:g}">{escape(note)}</text></a>'
            )
        else:
            parts.append(
                f'<g class="{node[1]}"><rect x="{x}" y="{y:g}" width="{339 - x}" height="{height}" rx="6"/>'
                f'<text x="{x + 10}" y="{middle + 5:g}">{escape(node[0])}</text></g>'
            )
        y += height + 8
        open_lines[depth] = y - 8
        if not is_leaf:
            for child in node[2]:
                walk(child, depth + 1)

    walk(TREE, 0)
    return _svg("narrow", 340, y, parts)


def _wrap(text: str, width: float) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) + 1 > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _svg(name: str, width: float, height: float, parts: list[str]) -> str:
    title = "Map: which object of skdp fits the task"
    description = "A tree of questions: who is trusted, what is collected and how often. Each end is a link to a page."
    return (
        f'<svg class="skdp-map skdp-map-{name}" viewBox="0 0 {width:g} {height:g}" role="group" '
        f'aria-labelledby="map-title-{name} map-text-{name}">'
        f'<title id="map-title-{name}">{title}</title><desc id="map-text-{name}">{description}</desc>'
        f"{''.join(parts)}</svg>"
    )


class ChooseMap(SphinxDirective):
    """Both forms of the map; the style sheet shows one of them."""

    def run(self) -> list[nodes.Node]:
        """Return the SVG."""
        return [nodes.raw("", wide_map() + narrow_map(), format="html")]


def setup(app: Any) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("choose-map", ChooseMap)
    return {"parallel_read_safe": True}
