"""A page for each file in benchmarks/results: the docstring of its script, and its newest rows as pivots."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

DOCS = Path(__file__).parent.parent
BENCHMARKS = DOCS.parent / "benchmarks"


def setup(app: Any) -> dict[str, bool]:
    """Write the pages before Sphinx looks for them."""
    sys.path.append(str(BENCHMARKS))
    from run import (
        format_pivots,
        read_rows,
        select_newest,
    )

    for path in (BENCHMARKS / "results").glob("*.csv"):
        script = import_module(path.stem)
        frame = read_rows(pd.read_csv(path).to_dict("records"))
        rows = select_newest(frame, script)
        machines = "; ".join(rows["machine"].unique())
        parts = [
            f"# {path.stem.replace('_', ' ').capitalize()}",
            script.__doc__,
            f"Each row is the newest result of a method; `commit` is the code that was measured. Machine: {machines}.",
        ]
        grown = rows[rows["task"].str.startswith("growth")]
        rows = rows.drop(grown.index)
        if len(grown):
            picture = DOCS / "benchmarks" / "growth.svg"
            parts.append(draw_growth(grown, picture))
        texts = format_pivots(rows).strip().split("\n\n")
        for title, table in zip(texts[::2], texts[1::2], strict=True):
            title = title[0].upper() + title[1:].replace("_", " ")
            parts.append(f"## {title}\n\n```text\n{table}\n```\n")
        page = DOCS / "benchmarks" / f"{path.stem}.md"
        page.write_text("\n\n".join(parts), encoding="utf-8")
    return {"parallel_read_safe": True}


def draw_growth(rows: pd.DataFrame, path: Path) -> str:
    """Draw the times of the tasks "growth" by size, and return the section of the page."""
    rows = rows.assign(
        size=rows["table"].str.replace(r"\D", "", regex=True).astype(int)
    )
    medians = rows.pivot_table(
        "value",
        ["task", "method", "commit", "size"],
        "metric",
        aggfunc="median",
        sort=False,
    )
    tasks = list(dict.fromkeys(rows["task"]))
    figure, panels = plt.subplots(
        2,
        -(-len(tasks) // 2),
        figsize=(11, 11),
        layout="constrained",
        squeeze=False,
    )
    table = []
    for axes, task in zip(panels.flat, tasks, strict=False):
        for method, group in medians.loc[task].groupby(
            "method", sort=False
        ):
            group = group.droplevel(["method", "commit"]).sort_index()
            sizes = group.index.to_numpy()
            exponent = np.polyfit(
                np.log(sizes), np.log(group["seconds"]), 1
            )[0]
            axes.loglog(
                sizes,
                group["seconds"],
                "o-",
                label=f"{method}: {exponent:.2f}",
            )
            largest = group.iloc[-1].reindex(
                ["seconds", "random_bytes_per_record", "urandom_seconds"]
            )
            table.append([task, method, exponent, sizes[-1], *largest])
        axes.set(
            xlabel=task.removeprefix("growth with "),
            ylabel="seconds of CPU time",
        )
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.tick_params(
            axis="x", which="minor", bottom=False, labelbottom=False
        )
        axes.legend(
            title="method: exponent",
            loc="upper center",
            bbox_to_anchor=(0.5, -0.15),
            fontsize="small",
        )
    figure.savefig(path)
    plt.close(figure)
    columns = [
        "task",
        "method",
        "exponent",
        "largest size",
        "seconds",
        "random bytes per record",
        "seconds of os.urandom",
    ]
    text = pd.DataFrame(table, columns=columns).to_string(
        index=False,
        na_rep="",
        formatters={
            "largest size": "{:,}".format,
            **dict.fromkeys(columns[4:], "{:.3g}".format),
            "exponent": "{:.2f}".format,
        },
    )
    return (
        "## Growth\n\nThe exponent is the slope of the logarithm of the time, by least squares over all sizes.\n\n"
        f"![CPU time by size, on logarithmic scales]({path.name})\n\n"
        f"```text\n{text}\n```\n"
    )
