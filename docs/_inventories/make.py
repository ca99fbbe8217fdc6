"""Write the inventories that intersphinx reads, so that the build fetches nothing.

pandas and scikit-learn: the Python names of the inventories in Debian 12 (python-pandas-doc 1.5, python-sklearn-doc
1.2); the addresses of these names have not changed since. Python: python3.11-doc. NumPy has no such package: its
inventory is made from the names of the installed NumPy, whose pages are named after them.

    python docs/_inventories/make.py python.inv pandas.inv sklearn.inv    # the files of the packages, in this order
"""

import inspect
import sys
import zlib
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def write(name, version, lines):
    """Write an inventory in Sphinx's format 2."""
    head = f"# Sphinx inventory version 2\n# Project: {name}\n# Version: {version}\n"
    head += "# The remainder of this file is compressed using zlib.\n"
    body = zlib.compress("\n".join([*lines, ""]).encode(), 9)
    (HERE / f"{name}.inv").write_bytes(head.encode() + body)


def read(path):
    """Return the version and the lines of Python names in an inventory."""
    head, body = Path(path).read_bytes().split(b"zlib.\n", 1)
    lines = zlib.decompress(body).decode().splitlines()
    version = head.decode().splitlines()[2].removeprefix("# Version: ")
    return version, [line for line in lines if " py:" in line]


def numpy_lines():
    """Yield a line for each public class and function of NumPy that has a page of its own name."""
    for module in (np, np.random, np.linalg):
        for name in sorted(module.__all__):
            thing = getattr(module, name)
            role = (
                "class"
                if inspect.isclass(thing)
                else "function"
                if callable(thing)
                else ""
            )
            if role and module is not np.random:
                yield f"{module.__name__}.{name} py:{role} 1 reference/generated/$.html -"
    yield "numpy.random.Generator py:class 1 reference/random/generator.html#$ -"


if __name__ == "__main__":
    for project, source in zip(
        ("python", "pandas", "sklearn"), sys.argv[1:], strict=True
    ):
        write(project, *read(source))
    write("numpy", np.__version__.rpartition(".")[0], numpy_lines())
