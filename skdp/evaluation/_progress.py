"""A progress bar."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def counted(results: Iterable[Any], total: int, progress: bool) -> Iterable[Any]:
    """Count results on standard error while they are made, if asked for."""
    if not progress:
        return results
    try:
        from tqdm import tqdm
    except ImportError:
        raise ImportError(
            'progress=True needs tqdm: pip install "skdp[plot]"'
        ) from None
    return tqdm(results, total=total, unit="fit", dynamic_ncols=True)
