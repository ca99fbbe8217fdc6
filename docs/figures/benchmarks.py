"""Pictures of the tables of benchmarks/results."""

import re
import tomllib
from pathlib import Path

from matplotlib import pyplot as plt

ROOT = Path(__file__).parent.parent.parent
PICTURES = ROOT / "docs" / "benchmarks" / "pictures.toml"


def read_table(
    name: str, heading: str
) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the first table under a heading of a result."""
    text = (ROOT / "benchmarks" / "results" / f"{name}.md").read_text(
        encoding="utf-8"
    )
    part = text.split(f"\n## {heading}\n", 1)[1]
    lines = []
    for line in part.splitlines():
        if line.startswith("|"):
            lines.append(
                [
                    cell.strip().replace("**", "")
                    for cell in line.strip().strip("|").split("|")
                ]
            )
        elif lines:
            break
    return lines[0], lines[2:]


def number(text: str) -> float | None:
    """Return the number that a cell begins with, None if there is none."""
    match = re.match(r"-?[\d,]*\.?\d+", text)
    return float(match[0].replace(",", "")) if match else None


def bars(name: str) -> None:
    """Draw the column of a table that pictures.toml names."""
    picture = tomllib.loads(PICTURES.read_text(encoding="utf-8"))[name]
    head, rows = read_table(name, picture["heading"])
    rows = rows[: picture.get("first")]
    column, names = (
        head.index(picture["value"]),
        [head.index(label) for label in picture["labels"]],
    )
    pairs = [
        (", ".join(row[index] for index in names), number(row[column]))
        for row in rows
    ]
    kept = [(label, value) for label, value in pairs if value is not None]
    colours = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    ours = [
        label.startswith(("skdp", "DP")) or ", skdp" in label
        for label, _ in kept
    ]
    axes = plt.subplots(figsize=(7.2, 0.9 + 0.3 * len(kept)))[1]
    drawn = axes.barh(
        range(len(kept)),
        [value for _, value in kept],
        color=[colours[0 if own or not any(ours) else 4] for own in ours],
    )
    axes.bar_label(
        drawn, labels=[f" {value:,g}" for _, value in kept], fontsize=9
    )
    axes.set_yticks(
        range(len(kept)),
        [
            label if len(label) < 56 else f"{label[:54]}…"
            for label, _ in kept
        ],
        fontsize=9,
    )
    axes.set_xlabel(picture["value"])
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.grid(axis="y", visible=False)
    if picture.get("log"):
        axes.set_xscale("log")
