"""The address of the documentation, and the link to it in scikit-learn's HTML of an estimator."""

from __future__ import annotations

SITE = "https://skdp.example"
"""Where the site is: a placeholder, until the project has an address. Without a slash at the end."""


class OnSite:
    """Mixin of estimators with a page of the API, named ``skdp.`` and the name of the class."""

    _doc_link_module = "skdp"
    _doc_link_template = f"{SITE}/api/generated/skdp.{{estimator_name}}.html"
