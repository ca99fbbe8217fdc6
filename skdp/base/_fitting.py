"""A fit changes an estimator at once or not at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Fit = TypeVar("Fit", bound=Callable[..., Any])


def all_or_nothing(fit: Fit) -> Fit:
    """Make a method that fits an estimator leave it as it was when it fails."""
    # Statistics and the guarantee that they were released under belong together. If a second fit stops between setting
    # one and the other, by an error or an interrupt, the estimator has all attributes of the first fit again, or none
    # if there was no first fit. What was charged stays charged, and random bits that were drawn are not drawn again.

    @wraps(fit)
    def fit_or_restore(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            self.__dict__ = before  # one assignment: not even an interrupt comes in between
            raise

    return cast(Fit, fit_or_restore)
