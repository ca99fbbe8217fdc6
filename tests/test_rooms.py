"""Location of code: imports of a module, and sizes of files and folders."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import skdp

ROOT = Path(skdp.__file__).parent
TESTS = Path(__file__).parent
MAX_FILES, MAX_LINES = 20, 1_000

MODULES = {
    ".".join(["skdp", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}


SOURCES = {module: path.read_text() for module, path in MODULES.items()}


def folder_of(module):
    """Return the package of a module; a package belongs to itself.

    A folder with an `__init__.py` without imports is a part of the package above it.
    """
    folder = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    return folder if "import " in SOURCES[folder] else folder.rpartition(".")[0]


@cache
def list_nodes(source):
    return list(ast.walk(ast.parse(source)))


FROM = re.compile(r"^ *from (skdp\b[\w.]*) import (\([^)]*\)|[^\n(]*)", re.MULTILINE)
IMPORT = re.compile(r"^ *import (skdp\b[\w.]*)", re.MULTILINE)


def imports(source):
    """Yield the modules of skdp that a module imports, at its top and in functions; to parse all modules is slow."""
    for module, names in FROM.findall(source):
        for name in re.findall(r"^\s*\(?\s*(\w+)|,\s*(\w+)", names):
            whole = f"{module}.{name[0] or name[1]}"
            yield whole if whole in MODULES else module
    yield from (module for module in IMPORT.findall(source) if module in MODULES)


def is_private(module):
    return any(part[0] == "_" for part in module.split(".")) and not module.endswith("__")


def foreign_private(module, source):
    """List private modules that are imported from a folder that neither is nor contains the module's folder."""
    own = f"{folder_of(module)}."
    return [found for found in imports(source) if is_private(found) and not own.startswith(f"{folder_of(found)}.")]


def test_private_modules_are_not_imported_by_other_packages():
    for module, source in SOURCES.items():
        assert not foreign_private(module, source), module
    private = "skdp.local._tally"
    source = f"from {private} import x"
    assert foreign_private("skdp.metrics._table_errors", source) == [private]
    assert foreign_private("skdp.local.protocol._fields", source) == []
    # The folders of `skdp.privacy` have no public names.
    private = "skdp.privacy.ledger._book"
    source = f"from {private} import x"
    assert foreign_private("skdp.central._base", source) == [private]
    assert foreign_private("skdp.privacy.statement._walk", source) == []


# Modules that import by name, and the arguments.
BY_NAME = {
    "skdp": ['f"skdp.{name}"', "_MODULES[name]"],
    "skdp.cli": ['f"skdp.cli.{options.module}"'],
    "skdp.readers._large_table": ["module"],  # in skdp.readers
    "skdp.readers._io": ["package", "module"],  # another library
    "skdp.persistence": ['"skdp"'],  # up
}


def imports_by_name(source):
    """List the arguments of the calls that import a module by its name."""
    if not re.search(r"import_module|__import__", source):
        return []
    return [
        ast.unparse(node.args[0]).replace("'", '"')
        for node in list_nodes(source)
        if isinstance(node, ast.Call) and re.search(r"\b(import_module|__import__)$", ast.unparse(node.func))
    ]


def test_imports_by_name_are_listed():
    found = {module: imports_by_name(source) for module, source in SOURCES.items()}
    assert {module: names for module, names in found.items() if names} == BY_NAME


# Test files that import internal names, and the exact numbers that no release shows.
INTERNAL_IN_TESTS = {
    "central/test_group_quantiles.py": "scores before noise",
    "central/test_quantiles.py": "public candidates",
    "central/test_levels.py": "estimates from given counts",
    "central/test_limits.py": "cells of a search",
    "engines/test_coins.py": "random bits of a batch",
    "engines/test_spark.py": "results of a task",
    "randomness/test_noise_proofs.py": "draws from given bits",
    "randomness/test_real.py": "draws from given bits",
    "randomness/test_sources.py": "streams of rows",
    "synthesis/budgets.py": "counts before noise",
    "synthesis/test_bins.py": "edges of fine cells",
    "synthesis/test_estimation.py": "penalties and sweeps of a fit",
    "synthesis/test_interactions.py": "scores before noise",
    "synthesis/test_linked_synthesizer.py": "counts before noise",
    "synthesis/test_target_table.py": "scores before noise",
}


def list_test_imports(pattern):
    """List the test files with an import that matches a pattern."""
    imported = re.compile(pattern, re.MULTILINE)
    files = {path.relative_to(TESTS).as_posix(): path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py")}
    return {name for name, source in files.items() if imported.search(source)}


def test_tests_import_public_names():
    internal = r"^ *(from skdp[\w.]*\._|import skdp[\w.]*\._|from skdp[\w.]* import _|from skdp[\w.]* import .*, _)"
    assert list_test_imports(internal) == INTERNAL_IN_TESTS.keys()


def test_test_files_are_not_imported():
    assert list_test_imports(r"^ *(from|import) tests[\w.]*\.test_") == set()


def test_array_types_have_one_name():
    named = re.compile(r"NDArray\[np\.(float64|int64|intp|bool_|uint8)\]")
    assert [module for module, source in SOURCES.items() if named.search(source)] == ["skdp._arrays"]


def test_files_and_folders_are_limited():
    for folder in {path.parent for path in MODULES.values()}:
        assert len(list(folder.glob("*.py"))) <= MAX_FILES, f"{folder} is full: add the code to a related file"
    for module, source in SOURCES.items():
        assert len(source.splitlines()) <= MAX_LINES, f"{module} is too long: divide it"


def test_figure_of_the_layers_has_their_order():
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    names = [re.findall(r"\w+", layer) for layer in layers]
    picture = (ROOT.parent / "docs" / "_static" / "rooms.svg").read_text()
    boxes = re.findall(r'id="room-(\w+)">\s*<rect x="[\d.]+" y="(\d+)"', picture)
    shown = [[name for name, y in boxes if y == height] for height in sorted({y for _, y in boxes}, key=int)]
    assert shown == names


def find_tests(module):
    """Return the test file of the name of a module, in the folder of its room."""
    room, *parts = module.relative_to(ROOT).with_suffix("").parts
    return "/".join([*[room] * bool(parts), f"test_{[room, *parts][-1].strip('_')}.py"])


def test_each_module_has_a_test_file_of_its_name_or_a_row_of_the_table():
    files = {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    rows = re.findall(r"^\| `?([\w./ ]+?)`? \| (.+) \|$", (TESTS / "README.md").read_text(), re.MULTILINE)
    table = {module: set(re.findall(r"`(.+?)`", tests)) for module, tests in rows}
    modules = {path for path in MODULES.values() if path.name != "__init__.py"}
    names = {path.relative_to(ROOT).as_posix() for path in modules}
    missing = {name for name in names if find_tests(ROOT / name) not in files and not table.get(name)}
    assert not missing, f"add a test file or a row of tests/README.md for {missing}"
    assert {*table} <= names | {"Module", "the whole package"}
    listed = set().union(*table.values())
    assert listed <= files
    assert files <= listed | {find_tests(path) for path in modules}, "add the file to tests/README.md"


def list_split_errors(source):
    """List the attributes of a module's splits of a budget that are not among their fractions."""
    names = {}
    for node in list_nodes(source) if "Split(" in source else []:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func) == "Split"
        ):
            keywords = {keyword.arg: keyword.value for keyword in node.value.keywords}
            names[node.targets[0].id] = {keywords.pop("rest").value, *keywords}
    nodes = list_nodes(source) if names else []
    read = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    return [ast.unparse(node) for node in read if node.attr not in names.get(node.value.id, [node.attr])]


def test_fractions_of_a_split_are_read_by_their_names():
    assert [error for source in SOURCES.values() for error in list_split_errors(source)] == []
    source = "A = Split(rest='b', c=x)\nA.b + A.c + A.d"
    assert list_split_errors(source) == ["A.d"]


def test_long_cases_are_cases_of_tests():
    files = {
        path.relative_to(TESTS.parent).as_posix(): path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py")
    }
    for case in (TESTS / "long_cases.txt").read_text(encoding="utf-8").splitlines():
        file, _, name = case.partition("[")[0].partition("::")
        assert f"def {name.rpartition('::')[2]}(" in files.get(file, ""), f"{name} left {file}: delete its cases"
