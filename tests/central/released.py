"""Noise of which the noisy counts are known."""

from __future__ import annotations


class Released:
    """Noise that makes noisy counts the same, whatever the counts are, and shows these."""

    def __init__(self, make, error=None):
        self.make, self.error, self.seen = make, error, []

    def draw(self, source, size):
        noisy, seen = self.make(size), self.seen

        class Rest:
            __array_ufunc__ = None

            def __radd__(self, counts):
                seen.append(counts)
                return noisy

        return Rest()
