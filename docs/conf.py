"""The documentation site. `make docs` builds it; nothing is fetched."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

from skdp_api import own_members, pages_of  # noqa: E402
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
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "skdp_api",
    "skdp_benchmarks",
    "skdp_figures",
    "skdp_guarantees",
    "skdp_map",
    "skdp_math",
    "skdp_notebooks",
    "skdp_repository",
    "skdp_search",
]
smartquotes = False  # values of parameters are in straight quotes
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = [
    "_ext",
    "_templates",
    "_inventories",
    "figures",
    "guarantees/mechanisms/*",
    "gallery/**/*.ipynb",
]
templates_path = ["_templates"]
default_role = "py:obj"  # of single backticks in docstrings

# Markdown
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Docstrings
autosummary_generate = True
autosummary_context = {"own_members": own_members, "pages_of": pages_of}
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
add_module_names = False
toc_object_entries = True  # methods under "On this page"
toc_object_entries_show_parents = "hide"

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
    "reset_modules": ("matplotlib", "skdp_gallery.reset"),
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
epub_css_files = ["book.css"]
epub_show_urls = "no"
html_js_files = ["sortable.js", "accessible.js"]
html_copy_source = False
html_show_sourcelink = False
html_search_scorer = str(HERE / "search_ranking.js")
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
