"""The documentation site. `make docs` builds it; nothing is fetched."""

import inspect
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import matplotlib  # noqa: E402
from docutils.nodes import SkipNode  # noqa: E402
from latex2mathml.converter import convert  # noqa: E402
from sklearn.base import BaseEstimator  # noqa: E402
from sphinx_gallery.sorting import FileNameSortKey  # noqa: E402

import skdp  # noqa: E402

project = "skdp"
author = "The skdp developers"
copyright = "The skdp developers"
version = release = skdp.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "skdp_benchmarks",
    "skdp_repository",
]
smartquotes = False  # values of parameters are in straight quotes
exclude_patterns = [
    "_ext",
    "_templates",
    "_inventories",
    "gallery/**/*.ipynb",
    "gallery/**/*.py",
]
templates_path = ["_templates"]
default_role = "literal"  # single backticks in docstrings are code

# Markdown, and notebooks with the outputs that are stored in them
nb_execution_mode = "off"
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Docstrings
autosummary_generate = True
# Methods that the pages of classes leave to the documentation of Python and scikit-learn.
FOREIGN_METHODS = {
    *dir(BaseEstimator),
    *dir(Exception),
    *dir(bytes),
    "score",
    "set_output",
}


def is_listed(module: str, owner: str, name: str) -> bool:
    """Return whether the page of a class describes a method or attribute."""
    member = inspect.getattr_static(
        getattr(import_module(module), owner), name, None
    )
    if name in FOREIGN_METHODS or name.endswith("_request"):
        return False
    return callable(member) or isinstance(
        member, (classmethod, staticmethod, property)
    )


autosummary_context = {"is_listed": is_listed}
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
add_module_names = False
toc_object_entries = True  # methods under "On this page"
toc_object_entries_show_parents = "hide"

nitpicky = True
# Newer than the inventory.
nitpick_ignore = [("py:obj", "sklearn.preprocessing.TargetEncoder")]
# Links to other projects, from inventories in the repository: docs/_inventories/make.py makes them.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", "_inventories/python.inv"),
    "numpy": ("https://numpy.org/doc/stable", "_inventories/numpy.inv"),
    "pandas": (
        "https://pandas.pydata.org/docs",
        "_inventories/pandas.inv",
    ),
    "sklearn": (
        "https://scikit-learn.org/stable",
        "_inventories/sklearn.inv",
    ),
}


def keep_legends(_conf: Any, _name: str) -> None:
    """Keep legends outside of the axes within the pictures of examples."""
    matplotlib.rcParams["savefig.bbox"] = "tight"


# The gallery: examples/*/plot_*.py
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": FileNameSortKey,
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("skdp",),
    "reference_url": {"skdp": None},
    "download_all_examples": False,
    "remove_config_comments": True,
    "write_computation_times": False,  # their page fetches scripts
    "show_memory": False,
    "reset_modules": ("matplotlib", keep_legends),
    "ignore_repr_types": r"skdp\.evaluation\..*Display",
    "show_signature": False,
    "min_reported_time": 20,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "parallel": 2,
    "copyfile_regex": r".*\.rst",
}
suppress_warnings = ["config.cache"]

# HTML
html_theme = "pydata_sphinx_theme"
html_title = "skdp"
html_static_path = ["_static"]
html_css_files = ["skdp.css"]
epub_show_urls = "no"
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = (
    False  # summaries are fetched, which a browser refuses for files
)
html_theme_options = {
    "logo": {"text": "skdp"},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 1,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "choose": []}
html_context = {"default_mode": "auto"}


def _write_formula(translator: Any, node: Any, display: str) -> None:
    translator.body.append(convert(node.astext(), display=display))
    raise SkipNode


def setup(app: Any) -> None:
    """Write formulas as MathML, for which browsers need no script."""
    app.add_html_math_renderer(
        "mathml",
        (lambda body, node: _write_formula(body, node, "inline"), None),
        (lambda body, node: _write_formula(body, node, "block"), None),
    )
