"""Write the picture of the README, and the output of its code, from one run with a seed.

python docs/make_figures.py
"""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from skdp.evaluation import CountEstimateDisplay

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "_static" / "counts.svg"
BLOCK = re.compile(
    r"```python\n(?P<code>(?:(?!```).)*)```\n\n```text\n(?P<output>.*?)```",
    re.DOTALL,
)


def main() -> None:
    """Run the example of the README that has an output, with a seed."""
    readme = README.read_text(encoding="utf-8")
    block = BLOCK.search(readme)
    assert block is not None
    code = block["code"].replace(
        "epsilon=1.0,", "epsilon=1.0, random_state=0,"
    )
    found: dict[str, Any] = {}
    with redirect_stdout(io.StringIO()) as printed:
        exec(code, found)
    output = printed.getvalue().partition(", NOT SECURE")
    text = output[0] + "\n" + output[2].partition("\n")[2]
    text = re.sub(r" +$", "", text, flags=re.MULTILINE)
    first, last = block.span("output")
    README.write_text(
        readme[:first] + text + readme[last:], encoding="utf-8"
    )

    CountEstimateDisplay.from_estimates(
        found["encoder"].estimate_counts(found["reports"]),
        true_counts=found["domain"].value_counts(found["people"]),
    )
    plt.rcParams |= {"svg.hashsalt": "skdp", "svg.fonttype": "none"}
    plt.savefig(
        PICTURE,
        bbox_inches="tight",
        metadata={"Date": None, "Description": text},
    )


if __name__ == "__main__":
    main()
