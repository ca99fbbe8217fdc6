"""Ask the search of the built site what newcomers ask: the right page has to be the first, or among the first three.

python docs/check_search.py site/html

The scripts are those that a browser runs, in V8 (mini-racer), with as much of a page as the search itself needs.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

from py_mini_racer import MiniRacer

QUESTIONS = Path(__file__).parent / "search_questions.toml"
N_FIRST = {"first": 1, "among_three": 3}
PAGE = """
var window = globalThis;
var SPHINX_HIGHLIGHT_ENABLED = false;
var DOCUMENTATION_OPTIONS = {};
var _ = (text) => text;
var _ready = () => {};
var document = {
  addEventListener: () => null,
  getElementById: () => null,
  documentElement: { dataset: {} },
};
"""
ASK = """
const ask = (question) => {
  const results = Search._performSearch(...Search._parseQuery(question));
  const pages = results.reverse().map((result) => result[0]);
  return JSON.stringify([...new Set(pages)]);
};
"""


def load_search(site: Path) -> MiniRacer:
    """Run the scripts of the search page, and its index."""
    engine = MiniRacer()
    scripts = [
        PAGE,
        (site / "_static" / "language_data.js").read_text(
            encoding="utf-8"
        ),
        (site / "_static" / "searchtools.js").read_text(encoding="utf-8"),
        (site / "searchindex.js").read_text(encoding="utf-8"),
        ASK,
    ]
    engine.eval("\n".join(scripts))
    return engine


def main() -> int:
    """Print each question whose page comes too late, and return how many there are."""
    engine = load_search(Path(sys.argv[1]))
    questions = tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))
    n_faults = 0
    for table, n_first in N_FIRST.items():
        for question, page in questions[table].items():
            pages = json.loads(engine.eval(f"ask({json.dumps(question)})"))
            if page not in pages[:n_first]:
                print(
                    f"{question!r}: {page} is not {table} in {pages[:4]}"
                )
                n_faults += 1
    print(f"{n_faults} questions without their page")
    return n_faults


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
