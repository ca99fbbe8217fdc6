"""Messages to users: warnings that point to their code, progress bars, and collection of all output."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from types import FrameType
from typing import TypeVar

from skdp.pages import warn
from skdp.privacy import PrivacyGuarantee, WeakGuaranteeWarning

Item = TypeVar("Item")

_IS_SHOWN = ContextVar("is_shown", default=False)

# Packages whose frames are skipped, because estimators call each other through them.
_LIBRARIES = ("skdp", "sklearn", "imblearn", "joblib")


def find_stack_level() -> int:
    """Return the `stacklevel` of the first frame outside skdp and scikit-learn, for `warnings.warn`."""
    frame = sys._getframe(1)
    level = 1
    while frame.f_back is not None and _get_package(frame) in _LIBRARIES:
        frame = frame.f_back
        level += 1
    return level


def _get_package(frame: FrameType) -> str:
    """Return the name of the package whose code a frame runs."""
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]


def warn_at_caller(text: str, category: type[Warning], *, about: str) -> None:
    """Warn with the location of the user's code, and a link to the page `about`."""
    warn(text, category, about=about, stacklevel=find_stack_level())


@contextmanager
def collect_output() -> Iterator[list[str]]:
    """Collect the texts of log records, warnings and printed output of a block of code.

    The yielded list is filled when the block ends.
    """
    texts: list[str] = []
    printed = io.StringIO()
    listener = logging.StreamHandler(printed)
    listener.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(listener)
    root.setLevel(logging.DEBUG)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            redirect_stdout(printed),
            redirect_stderr(printed),
        ):
            warnings.simplefilter("always")
            yield texts
    finally:
        root.removeHandler(listener)
        root.setLevel(level)
        texts += [f"{each.category.__name__}: {each.message}" for each in caught]
        if printed.getvalue():
            texts.append(f"printed: {printed.getvalue()}")


# Number of rows assumed for a warning before n is known. Few tables are smaller.
_MIN_ROWS = 1_000


def warn_of_epsilon(epsilon: float, requested: float | None = None) -> None:
    """Warn of an epsilon above 10.

    `requested` is the parameter of the user, from which epsilon may be rounded down.
    """
    # In randomized response with two values and an epsilon of 10, one of 1 + e^10 = 22,027
    # reports is not the true value.
    if epsilon <= 10:
        return
    stated = f"epsilon={epsilon:.6g}"
    # The probabilities of reports are multiples of 2**-64, which limits epsilon.
    if requested is not None and epsilon < float(requested) * (1 - 1e-6):
        stated += (
            ", the largest that this encoder reaches within the requested "
            f"epsilon={float(requested):.6g},"
        )
    warn_at_caller(
        f"{stated} gives weak protection from an attacker who knows everything else. "
        "Use epsilon <= 10",
        WeakGuaranteeWarning,
        about="answers/which_epsilon",
    )


def warn_of_release(guarantee: PrivacyGuarantee) -> None:
    """Warn of a large epsilon or delta of a release in the central model."""
    # **Privacy.** The number of rows is private, so the warning must not depend on it.
    warn_of_epsilon(guarantee.epsilon)
    _warn_of_delta(guarantee.delta, _MIN_ROWS, " for an assumed 1,000 records")


def warn_of_released_size(guarantee: PrivacyGuarantee, n_rows: float) -> None:
    """Warn of a delta above 1 / n for a noisy number of rows n, unless `warn_of_release` warned of it."""
    if guarantee.delta * _MIN_ROWS <= 1:
        _warn_of_delta(guarantee.delta, round(n_rows))


def _warn_of_delta(delta: float, n_rows: int, source: str = "") -> None:
    """Warn of a delta above 1 / n, which allows a mechanism to publish one of n records."""
    if delta * n_rows > 1:
        warn_at_caller(
            f"delta={delta:.3g} gives weak protection: with a delta above 1 / n, here "
            f"1 / {n_rows:,}{source}, a mechanism may publish a record. Use a smaller delta",
            WeakGuaranteeWarning,
            about="answers/which_epsilon#and-delta",
        )


@contextmanager
def show_progress() -> Iterator[None]:
    """Show the progress bars of `track` within a ``with`` block."""
    token = _IS_SHOWN.set(True)
    try:
        yield
    finally:
        _IS_SHOWN.reset(token)


def track(items: Iterable[Item], label: str, unit: str) -> Generator[Item, None, None]:
    """Yield items, with a progress bar on standard error if a command runs in a terminal."""
    # The bar counts items, such as blocks of a file, because the number of rows is private.
    if _IS_SHOWN.get():
        from tqdm import tqdm

        items = tqdm(items, label, unit=f" {unit}", disable=None, leave=False)
    yield from items
