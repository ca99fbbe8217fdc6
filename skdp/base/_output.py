"""The kind of frame that `set_output` asked for."""

from __future__ import annotations

from typing import Any

from sklearn import get_config

from skdp.frames import convert_frame


def as_asked(estimator: Any, released: Any) -> Any:
    """Convert what a transformer is about to return to the kind of frame that `set_output` asked for."""
    config = getattr(estimator, "_sklearn_output_config", {})
    return convert_frame(released, config.get("transform", get_config()["transform_output"]))
