"""Ask the search of the built site the questions of newcomers.

The right page has to be the first, or among the first three; a few of the sentences may miss theirs.

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
N_FIRST = {
    "first": 1,
    "among_three": 3,
    "sentences": 3,
    "missed_once": 3,
    "unseen": 3,
}
MAX_MISSED = {
    "first": 0,
    "among_three": 0,
    "sentences": 24,
    "missed_once": 0,
    "unseen": 15,
}
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
        (site / "_static" / "page_lines.js").read_text(encoding="utf-8"),
        (site / "_static" / "search_sentences.js").read_text(
            encoding="utf-8"
        ),
        (site / "searchindex.js").read_text(encoding="utf-8"),
        ASK,
    ]
    engine.eval("\n".join(scripts))
    return engine


def main() -> int:
    """Print each question whose page comes too late, and return the number of tables with too many of them."""
    engine = load_search(Path(sys.argv[1]))
    questions = tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))
    n_faults = 0
    for table, n_first in N_FIRST.items():
        n_missed = 0
        for question, page in questions[table].items():
            pages = json.loads(engine.eval(f"ask({json.dumps(question)})"))
            right = {page} if isinstance(page, str) else {*page}
            if not right & {*pages[:n_first]}:
                print(f"{question!r}: {page} is not in {pages[:4]}")
                n_missed += 1
        print(f"{table}: {n_missed} of {len(questions[table])} missed")
        n_faults += n_missed > MAX_MISSED[table]
    if json.loads(engine.eval('ask("budget xyzzy")')) == []:
        print("a search for an unknown word shows an empty page")
        n_faults += 1
    if engine.eval("Search._unknown.join()") != "xyzzi":
        print("a search for an unknown word does not name it")
        n_faults += 1
    engine.eval('ask("SMOTE")')
    if engine.eval("Search._corrected.join()") != "smote,smoke":
        print(
            "a search for a misspelled word does not name the word that it finds"
        )
        n_faults += 1
    line = engine.eval(
        'Search._performSearch(...Search._parseQuery("requires Java 17")).pop()[3]'
    )
    if "Java 17" not in (line or ""):
        print("a result does not show the line of the page with the words")
        n_faults += 1
    engine.close()
    return n_faults


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
