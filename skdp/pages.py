"""Pages of the documentation: the one place that knows where they are, and the warnings that name them."""

from __future__ import annotations

import warnings

SITE: str | None = None
"""The address of the site, without a slash at the end; None until there is a host."""


def address(page: str) -> str:
    """Return where a page is, such as ``"guide/tables"`` or ``"guide/tables#in-code"``."""
    name, hash_sign, section = page.partition("#")
    # Without a host, the file: it is in the repository and in the source distribution.
    if SITE is None:
        return f"docs/{name}.md{hash_sign}{section}"
    return f"{SITE}/{name}.html{hash_sign}{section}"


def warn(text: str, category: type[Warning], *, about: str, stacklevel: int) -> None:
    """Warn, and say which page of the documentation is about it; `stacklevel` is as in the function that calls."""
    message = f"{text}. See {address(about)}"
    warnings.warn(message, category, stacklevel=stacklevel + 1)
