"""Warnings at the line that the user wrote, once for each object that is called there."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

_LIBRARIES = ("skdp", "sklearn", "imblearn", "joblib")
"""Packages through which estimators call each other: nobody looks for a mistake of their own in these files."""

_SHOWN: WeakKeyDictionary[Any, set[tuple[str, str, int]]] = WeakKeyDictionary()
"""Of the objects that users called, the warnings that were shown: text, file and line."""


def level_of_the_caller() -> int:
    """Return the stacklevel of the first frame outside skdp, scikit-learn and what these call."""
    level, _ = _first_call(sys._getframe(1))
    return level


def warn_once(text: str, category: type[Warning]) -> None:
    """Warn at the line of the user, once for each object that is called there, unless the filters ask for more."""
    # A search fits clones. Python shows a warning once a line, but forgets which were shown whenever filters change,
    # and scikit-learn sets them anew for each fit.
    level, call = _first_call(sys._getframe(1))
    caller = call.f_back or call
    if _is_shown_once(text, category, caller):
        shown = _shown_of(_first_argument(call))
        place = text, caller.f_code.co_filename, caller.f_lineno
        if place in shown:
            return
        shown.add(place)
    warnings.warn(text, category, stacklevel=level + 1)


def _first_call(frame: FrameType) -> tuple[int, FrameType]:
    """Return the stacklevel of the first frame outside the libraries, and the frame of the library that it called."""
    call, level = frame, 1
    while (
        frame.f_back is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES
    ):
        call, frame, level = frame, frame.f_back, level + 1
    return level, call


def _first_argument(call: FrameType) -> Any:
    """Return the object whose method was called, or the estimator that was given to a function."""
    names = call.f_code.co_varnames
    argument = call.f_locals.get(names[0]) if names else None
    return argument[0] if isinstance(argument, tuple) and argument else argument


def _shown_of(owner: Any) -> set[tuple[str, str, int]]:
    """Return the warnings that were shown of an object, which are forgotten with it."""
    try:
        return _SHOWN.setdefault(owner, set())
    except TypeError:  # nothing can be remembered of it
        return set()


def _is_shown_once(text: str, category: type[Warning], caller: FrameType) -> bool:
    """Whether the filters ask for one warning of the same text at the same line, as they do by default."""
    module = caller.f_globals.get("__name__", "<unknown>")
    for action, message, kind, place, line in warnings.filters:
        of_line = line in (0, caller.f_lineno)
        if (
            issubclass(category, kind)
            and of_line
            and _matches(message, text)
            and _matches(place, module)
        ):
            return action in ("default", "module", "once")
    return True


def _matches(pattern: Any, text: str) -> bool:
    """Whether a pattern of a filter fits: none, the text itself, or a regular expression."""
    if pattern is None or isinstance(pattern, str):
        return pattern in (None, text)
    return pattern.match(text) is not None
