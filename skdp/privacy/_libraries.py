"""Libraries and classes of estimators, found by name because `skdp.privacy` imports none of them."""

from __future__ import annotations

# Libraries whose classes have a known behavior.
_KNOWN_LIBRARIES = ("sklearn", "imblearn", "skdp")


def find_library(estimator: object) -> str | None:
    """Return the library that defines the class of an estimator; None for unknown libraries."""
    # A subclass of a known class in another module is unknown too.
    library = type(estimator).__module__.partition(".")[0]
    return library if library in _KNOWN_LIBRARIES else None


def is_a(estimator: object, *names: str) -> bool:
    """Check if an estimator has one of the named classes of scikit-learn or imbalanced-learn."""
    is_known = find_library(estimator) in ("sklearn", "imblearn")
    return is_known and type(estimator).__name__ in names
