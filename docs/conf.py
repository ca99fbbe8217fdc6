"""The documentation site. `make docs` builds it; nothing is fetched."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import matplotlib  # noqa: E402
from docutils.nodes import SkipNode  # noqa: E402
from latex2mathml.converter import convert  # noqa: E402
from skdp_repository import URLS  # noqa: E402
from sklearn.base import BaseEstimator  # noqa: E402

import skdp  # noqa: E402
from skdp.evaluation.displays import COLORS  # noqa: E402
from skdp.oracles import FrequencyOracle  # noqa: E402

project = "skdp"
author = "The skdp developers"
copyright = "The skdp developers"
version = release = skdp.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "skdp_accessible",
    "skdp_benchmarks",
    "skdp_names",
    "skdp_repository",
    "skdp_search",
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
# Methods of estimators and domains that are folded at the end of a page.
EXTENSION_METHODS = {
    "channel",
    "count_variances",
    "decoders",
    "encode",
    "from_json",
    "get_feature_names_out",
    "get_metadata_routing",
    "join",
    "split",
    "tally",
    "to_json",
}


def list_members(
    module: str, name: str, folded: bool
) -> list[tuple[str, str]]:
    """Return the directives and names of the members that the page of a class describes, open or folded."""
    cls = getattr(import_module(module), name)
    is_user_class = issubclass(cls, BaseEstimator | skdp.Domain)
    is_oracle = FrequencyOracle in cls.__mro__[1:]  # its base describes it
    excluded = dir(FrequencyOracle) if is_oracle else ()
    listed = []
    for member in dir(cls):
        owner = next(base for base in cls.__mro__ if member in vars(base))
        value = vars(owner)[member]
        source = getattr(value, "__module__", None) or owner.__module__
        is_ours = source.startswith("skdp.")
        is_request = member.startswith("set_") and member.endswith(
            "_request"
        )
        if (
            member[0] == "_"
            or member in excluded
            or not is_ours
            or is_request
        ):
            continue
        if (is_user_class and member in EXTENSION_METHODS) != folded:
            continue
        if callable(value) or isinstance(
            value, classmethod | staticmethod
        ):
            listed.append(("automethod", member))
        elif isinstance(value, property):
            listed.append(("autoproperty", member))
    return listed


autosummary_context = {"list_members": list_members}
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


# Pictures of the guide link to pages of the gallery, which exist only as HTML.
linkcheck_ignore = [r"\.\./gallery/"]


def keep_legends(_conf: Any, _name: str) -> None:
    """Keep legends in pictures of examples, their text readable on a phone, and the colors of Displays."""
    matplotlib.rcParams["savefig.bbox"] = "tight"
    matplotlib.rcParams["figure.figsize"] = (5.0, 3.7)
    matplotlib.rcParams["axes.prop_cycle"] = matplotlib.cycler(
        color=COLORS
    )


# The gallery: examples/*/plot_*.py
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "subsection_order": [
        f"../examples/{task}"
        for task in (
            "local",
            "curator",
            "synthesis",
            "fairness",
            "cost",
            "budgets",
            "engines",
        )
    ],
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
copybutton_exclude = ".linenos, .gp, .go"  # prompts and output
html_theme = "pydata_sphinx_theme"
html_title = "skdp"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["skdp.css"]
html_js_files = ["scroll.js"]
epub_show_urls = "no"
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = (
    False  # summaries are fetched, which a browser refuses for files
)
html_theme_options = {
    "logo": {"text": f"skdp {version}"},
    # The repository is in the bar when [project.urls] of pyproject.toml has it.
    "icon_links": [
        {"name": name, "url": url, "icon": "fa-solid fa-code-branch"}
        for name, url in URLS.items()
        if name == "Repository"
    ],
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher", "navbar-icon-links"],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": ["footer_links"],
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
