"""Where code lives: what a module may import, and how large files and folders are."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import skdp

ROOT = Path(skdp.__file__).parent
MAX_FILES, MAX_LINES = 20, 1_000

MODULES = {
    ".".join(["skdp", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}


def folder_of(module):
    """Return the package that a module is in; a package is in itself."""
    return module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]


parsed = cache(ast.parse)
SOURCES = {module: path.read_text() for module, path in MODULES.items()}


def imports(nodes):
    """Yield the modules of ours that are imported by some nodes."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "skdp":
            for name in node.names:
                whole = f"{node.module}.{name.name}"
                yield whole if whole in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in MODULES)


def is_private(module):
    return any(part[0] == "_" for part in module.split(".")) and not module.endswith("__")


def foreign_private(module, source):
    """List the private modules that are imported from a folder that neither is the module's own nor holds it."""
    own = folder_of(module)
    return [
        found
        for found in imports(ast.walk(parsed(source)))  # at its top and in functions
        if is_private(found) and not f"{own}.".startswith(f"{folder_of(found)}.")
    ]


def test_no_private_module_of_another_room():
    for module, source in SOURCES.items():
        assert not foreign_private(module, source), module


def test_a_private_module_of_another_room_is_found():
    assert foreign_private("skdp.metrics._counts", "from skdp.local._tally import x") == ["skdp.local._tally"]
    assert foreign_private("skdp.local.protocol._field", "from skdp.local import _tally") == []
    assert foreign_private("skdp.local._tally", "from skdp.local.protocol._field import x") == [
        "skdp.local.protocol._field"
    ]


def test_sizes():
    for folder in {path.parent for path in MODULES.values()}:
        assert len(list(folder.glob("*.py"))) <= MAX_FILES, folder
    for path in MODULES.values():
        assert len(path.read_text().splitlines()) <= MAX_LINES, path


def at_import(body):
    """Yield the statements that run when a module is imported."""
    for node in body:
        yield node
        if isinstance(node, ast.Try) or (isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test)):
            yield from at_import(node.body)


def test_no_circles():
    arrows = {}
    for module, source in SOURCES.items():
        found = set(imports(node for node in at_import(parsed(source).body) if isinstance(node, ast.ImportFrom)))
        arrows[module] = {name for name in found if name in MODULES and name != module}
    while free := {module for module, wanted in arrows.items() if not wanted & arrows.keys()}:
        for module in free:
            del arrows[module]
    assert not arrows


def assigned_twice(source):
    """List the names that a module assigns more than once: files that become one may use the same name."""
    names = [
        name.id
        for node in parsed(source).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    ]
    return sorted({name for name in names if names.count(name) > 1})


def test_no_constant_is_assigned_twice():
    assert not {module: names for module, source in SOURCES.items() if (names := assigned_twice(source))}
    assert assigned_twice("_CALLS = 1\nA, _CALLS = 2, [x for x in ()]\nx = 1") == ["_CALLS"]


def test_the_picture_shows_the_layers_in_their_order():
    layers = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0][
        "layers"
    ]
    names = [re.findall(r"\w+", layer) for layer in layers]
    picture = (ROOT.parent / "docs" / "_static" / "rooms.svg").read_text()
    boxes = re.findall(r'id="room-(\w+)">\s*<rect x="[\d.]+" y="(\d+)"', picture)
    shown = [[name for name, y in boxes if y == height] for height in sorted({y for _, y in boxes}, key=int)]
    assert shown == names
