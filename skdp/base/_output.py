"""The kind of frame that `set_output` asked for."""

from __future__ import annotations

from typing import Any

from sklearn import get_config

from skdp.frames import convert_frame


def as_asked(estimator: Any, released: Any) -> Any:
    """Convert what a transformer is about to return to the kind of frame that `set_output` asked for.

    Parameters
    ----------
    estimator : transformer
        Its own setting comes before the global one.
    released : dataframe or ndarray
        What it made.

    Returns
    -------
    dataframe or ndarray
        The same, converted. Scikit-learn's own conversion knows arrays and pandas, not polars -> pandas or pyarrow.
    """
    config = getattr(estimator, "_sklearn_output_config", {})
    return convert_frame(released, config.get("transform", get_config()["transform_output"]))
