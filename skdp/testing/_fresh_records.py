"""Records that nobody has seen: with their ids, memoised reports are as fresh as any."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Self
from uuid import uuid4

from skdp.base import CallCounter


class FreshRecords:
    """Mixed into a transformer that memoises its reports: where no record ids are given, it makes up new ones."""

    # So it keeps whatever the contract asks of a transformer without memory. With a seed, the ids replay as coins do.

    def fit(self, X: Any, y: Any = None) -> Self:
        super().fit(X, y)  # type: ignore[misc]
        self._ids_of, self._numbers = getattr(self, "random_state", None), CallCounter()
        return self

    def transform(self, X: Any, record_id: Any = None) -> Any:
        return super().transform(X, record_id=self._new_ids(X) if record_id is None else record_id)  # type: ignore[misc]

    def _new_ids(self, X: Any) -> list[str]:
        if not hasattr(self, "_numbers"):
            return []  # not fitted: it will say so
        call = uuid4().hex if self._ids_of is None else f"seed {self._ids_of} call {self._numbers.advance()}"
        rows = X.shape[0] if hasattr(X, "shape") else len(X) if isinstance(X, list) else 0
        return [f"{call} row {row}" for row in range(rows)]

    def __reduce__(self) -> tuple[Any, ...]:
        return _revive, (type(self).__mro__[2],), self.__getstate__()


@lru_cache
def _with_fresh_records(kind: type) -> type:
    return type(kind.__name__, (FreshRecords, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})


def _revive(kind: type) -> Any:
    return object.__new__(_with_fresh_records(kind))


def give_fresh_records(estimator: Any) -> Any:
    """Return an unfitted copy of a transformer that makes up record ids where none are given."""
    kind: Any = type(estimator)
    return _with_fresh_records(kind)(**estimator.get_params(deep=False))
