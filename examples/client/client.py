"""Reference client: draw one report at a time with plain integers.

The code follows ``docs/guide/clients.md``: each draw is a coin or a uniform integer, and
is read from a stream of bytes in a fixed order. `FrequencyOracle.report` draws many
reports at a time from the same distributions, in another order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skdp.randomness import ByteSource


class Draws:
    """Exact draws from a stream of bytes, most significant byte first."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source

    def _number(self, n_bytes: int) -> int:
        return int.from_bytes(self._source.bytes(n_bytes).tobytes(), "big")

    def coin(self, threshold: int) -> bool:
        """Return True with probability ``threshold / 2**64``."""
        return self._number(8) < threshold

    def uniform(self, high: int) -> int:
        """Draw a uniform integer from 0 to high - 1."""
        # Use the highest bits of the drawn bytes, and draw again until the number is
        # below `high`.
        n_bits = (high - 1).bit_length()
        n_bytes = -(-n_bits // 8)
        while True:
            drawn = self._number(n_bytes) >> 8 * n_bytes - n_bits
            if drawn < high:
                return drawn


def client_report(
    sampler: Mapping[str, Any], code: int, source: ByteSource
) -> list[int]:
    """Randomize one code on the client.

    Parameters
    ----------
    sampler : mapping
        Return value of `FrequencyOracle.sampler`, also after a round trip through JSON.
    code : int
        The true value, ``0, ..., k - 1``.
    source : ByteSource
        Source of the random bytes.

    Returns
    -------
    list of int
        The report: one number, one bit per value, or a seed and a bucket.

    Raises
    ------
    TypeError, ValueError
        If the code is not an int or is out of range, or the type of the sampler is unknown.

    Notes
    -----
    **Privacy.** Reports have the exact channel of the oracle, which tests enumerate. The
    number of bytes that are read depends on the random bytes only. The sampler is not
    checked. For a protocol of another party, use the samplers of
    ``ReportTransformer.from_json(text).protocol_.oracles``, which are computed from the
    parameters of the guarantee, or check them as in ``examples/client/check.mjs``.
    """
    if isinstance(code, bool) or not isinstance(code, int):
        raise TypeError(f"code must be an int, got {type(code).__name__}")
    kind = sampler["kind"]
    if kind not in _KINDS:
        raise ValueError(
            f"kind must be one of {sorted(_KINDS)}, got {kind!r}"
        )
    if not 0 <= code < sampler["k"]:
        raise ValueError(f"code must be between 0 and {sampler['k'] - 1}")
    return _KINDS[kind](sampler, code, Draws(source))


def _response(
    sampler: Mapping[str, Any], code: int, draws: Draws
) -> list[int]:
    word = draws.uniform(1 << sampler["word_bits"])
    quotient, remainder = divmod(word, sampler["k"])
    # The coin and the uniform value are always drawn, so that the time does not depend on
    # the word.
    is_uniform = draws.coin(int(sampler["threshold"]))
    uniform = draws.uniform(sampler["k"])
    if quotient < sampler["bound"]:
        return [remainder]
    if quotient == sampler["bound"] and is_uniform:
        return [uniform]
    return [code]


def _bits(
    sampler: Mapping[str, Any], code: int, draws: Draws
) -> list[int]:
    p = int(sampler["p"])
    q = int(sampler["q"])
    heads = [p if value == code else q for value in range(sampler["k"])]
    return [int(draws.coin(threshold)) for threshold in heads]


def _subset(
    sampler: Mapping[str, Any], code: int, draws: Draws
) -> list[int]:
    k = sampler["k"]
    is_uniform = draws.coin(int(sampler["lie"]))
    # Draw the first positions of a shuffle. If the set is not uniform, the true value
    # replaces the first draw.
    order = list(range(k))
    for position in range(sampler["size"]):
        chosen = position + draws.uniform(k - position)
        if position == 0 and not is_uniform:
            chosen = code
        order[position], order[chosen] = order[chosen], order[position]
    bits = [0] * k
    for value in order[: sampler["size"]]:
        bits[value] = 1
    return bits


def _hashing(
    sampler: Mapping[str, Any], code: int, draws: Draws
) -> list[int]:
    prime = sampler["prime"]
    factor = draws.uniform(prime)
    summand = draws.uniform(prime)
    bucket = (factor * code + summand) % prime % sampler["n_buckets"]
    seed = factor << prime.bit_length() | summand
    return [seed, *_response(sampler["inner"], bucket, draws)]


_KINDS = {
    "response": _response,
    "bits": _bits,
    "subset": _subset,
    "hashing": _hashing,
}
