"""An elementary privacy loss: what a guarantee knows of a mechanism beyond epsilon and delta."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from skdp.exact import round_up
from skdp.privacy._json import Fields
from skdp.privacy._numbers import check_epsilon

MOST = 1 << 40
"""The largest count of equal losses, and the largest sensitivity."""

Radii = tuple[NDArray[np.float64], NDArray[np.float64]]

at_least_0 = partial(check_epsilon, zero=True)


@dataclass(frozen=True)
class Loss(ABC):
    """The privacy loss of a number of releases with the same kind of mechanism."""

    # A kind stands for a pair of distributions, P and Q. A release has this loss if, for any two neighbouring inputs,
    # its hockey-stick divergences in both directions are at most those of P and Q: a dominating pair. Dominating pairs
    # compose, also if the mechanism is chosen by earlier results (Y. Zhu, J. Dong, Y.-X. Wang (2022). Optimal
    # accounting of differential privacy via characteristic function. AISTATS).

    kind: ClassVar[str]

    count: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", whole("count", self.count))

    def _set(self, name: str, check: Any) -> None:
        object.__setattr__(self, name, round_up(check(getattr(self, name), name=name)))

    @property
    @abstractmethod
    def _pure(self) -> Fraction | None:
        """The epsilon of one of them unless it fails; None for Gaussian noise."""

    @property
    def _failure(self) -> Fraction:
        """The probability that one of them reveals everything."""
        return Fraction(0)

    @property
    def _concentrated(self) -> Fraction | None:
        """The rho of one of them, None if it has none."""
        pure = self._pure
        return None if pure is None or pure >= 10**150 else pure**2 / 2

    @abstractmethod
    def _doubled(self) -> Self:
        """Return the loss for replacing a record, which is removing one and adding one."""

    @abstractmethod
    def _or(self, other: Any) -> Self:
        """Return a loss that is at least this one and another of the same kind."""

    def _similar(self) -> tuple[Any, ...]:
        """Return a key by which neighbours are similar: the kind, which numbers are missing, and the numbers."""
        numbers = [
            getattr(self, one.name) for one in fields(self) if one.name != "count"
        ]
        return (self.kind, tuple(number is None for number in numbers), *numbers[::-1])

    def _radii(self) -> Radii:
        """Return absolute values of the loss and their probabilities: given one, it is randomised response with it."""
        return np.array([float(self._pure or 0)]), np.ones(1)

    def _content(self) -> dict[str, Any]:
        return {"kind": self.kind} | {
            one.name: getattr(self, one.name) for one in fields(self)
        }

    @classmethod
    @abstractmethod
    def _of(cls, record: Fields, count: int) -> Self: ...


def read_whole(record: Fields, name: str) -> int:
    """Read a count of a record."""
    try:
        return whole(record.at(name), record.take(name))
    except TypeError as error:
        raise ValueError(str(error)) from None


def whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {type(value).__name__}")
    number = int(value)
    if not 1 <= number <= MOST:
        raise ValueError(f"{name} must be a whole number from 1 to 2**40, got {number}")
    return number
