"""Messages of the library with options and entries of a domain file in place of parameters."""

import ast
import re
from pathlib import Path

import skdp


def test_messages_of_commands_stay_grammatical_with_entries_of_the_domain_file():
    """`bounds` becomes "entry" and `None` "missing = true", which follow no preposition."""
    packages = ("domain", "local", "engines", "central", "base", "readers", "oracles", "tables")
    files = [path for name in packages for path in Path(skdp.__file__).parent.joinpath(name).rglob("*.py")]
    misfits = []
    for path in files:
        if "additive" in path.parts:  # no command fits these models
            continue
        raised = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Raise)]
        parts = [[c.value for c in ast.walk(node) if isinstance(c, ast.Constant)] for node in raised]
        texts = ["".join(filter(lambda part: isinstance(part, str), part)) for part in parts]
        misfits += [text for text in texts if re.search(r"\b(with|in|from|of|by|its|their|or) `(bounds|None)`", text)]
    assert misfits == []
