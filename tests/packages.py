"""The packages of skdp."""

import importlib
import pkgutil

import skdp

# Internal packages; the docstring of each package states it.
INTERNAL = {"skdp.base", "skdp.tables", "skdp.exact"}
ROOMS = [skdp] + [
    importlib.import_module(room.name)
    for room in pkgutil.iter_modules(skdp.__path__, "skdp.")
    if room.ispkg and room.name not in INTERNAL
]
