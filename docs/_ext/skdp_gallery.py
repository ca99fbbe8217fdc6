"""Settings of the pictures of examples."""

from __future__ import annotations

from typing import Any


def reset(conf: Any, name: str) -> None:
    """Keep legends outside of the axes within a picture; called before each example."""
    import matplotlib

    matplotlib.rcParams["savefig.bbox"] = "tight"
