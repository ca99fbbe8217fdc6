"""Addresses of pages of the documentation, and warnings that link to them."""

from __future__ import annotations

import warnings
from pathlib import Path

SITE: str | None = None
"""Address of the documentation site, without a slash at the end; None if it is not online."""


def address(page: str) -> str:
    """Return the URL of a page, such as ``"guide/tables"`` or ``"guide/tables#options"``."""
    name, hash_sign, section = page.partition("#")
    if SITE is None:
        # An installed package has the pages as HTML, and a source checkout has their sources.
        package = Path(__file__).parent
        path = package / "docs" / f"{name}.html"
        if not path.exists():
            path = package.parent / "docs" / f"{name}.md"
        return f"{path.as_uri()}{hash_sign}{section}"
    return f"{SITE}/{name}.html{hash_sign}{section}"


def warn(text: str, category: type[Warning], *, about: str, stacklevel: int) -> None:
    """Warn with a link to the page `about`; `stacklevel` counts from the calling function, as in `warnings.warn`."""
    message = f"{text}. See {address(about)}"
    warnings.warn(message, category, stacklevel=stacklevel + 1)
