"""The effect of fake reports on estimated counts."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skdp.local import OracleProtocol, ReportTransformer
from skdp.oracles import FrequencyOracle


def poisoning_gain(encoder: Any, n_fake: int, n_genuine: int) -> pd.DataFrame:
    """Compute how much fake reports can change the unbiased estimate of a count.

    A crafted report cannot be distinguished from a noisy one, and the estimate, which removes the noise, amplifies it
    ([1]_, [2]_).

    Parameters
    ----------
    encoder : fitted local transformer
        With frequency oracles, and ``strategy="split"`` or ``"joint"``.
    n_fake : int
        The number of fake reports, at least 0.
    n_genuine : int
        The number of genuine ones, at least 1.

    Returns
    -------
    pandas.DataFrame
        A row for each attribute, by its ``column`` (a tuple under "joint"):

        - ``raised_by_one``: the increase of the estimated count of a value that one crafted report supports;
        - ``lowered_by_one``: the decrease of the count of a value that it does not support;
        - ``values_at_once``: the number of values that a single report can raise; nan if that depends on hash
          functions, of which an attacker can try many;
        - ``shift``: the increase by all fake reports together, if they support the same value;
        - ``std_error``: the standard error of the estimated count of a value that no genuine record has;
        - ``shift_in_std_errors``: their ratio: above 2, fake reports look significant.

    Raises
    ------
    TypeError, ValueError
        If the encoder is of another kind or strategy, or a number is out of range.
    NotFittedError
        If the encoder is not fitted.

    Notes
    -----
    **Privacy.** Reads the protocol only, without privacy cost.

    The estimate is linear in the reports, so these numbers are exact and hold for any genuine reports: with n more
    reports, the estimate ``(support - n q) / (p - q)`` changes by ``(1 - q) / (p - q)`` for each one that supports the
    value and by ``-q / (p - q)`` for each one that does not. (Hadamard response and the sketch have their own linear
    estimates.) In unary encoding, a report of ones raises every value, but stands out; one with the usual number of
    ones raises fewer values, by as much each. A fake record that follows the protocol with a false value changes a
    count by 1 on average. Estimates with a postprocess, such as "simplex", change differently.

    References
    ----------
    .. [1] A. Cheu, A. Smith, J. Ullman (2021). Manipulation attacks in local differential privacy. IEEE S&P.
    .. [2] X. Cao, J. Jia, N. Gong (2021). Data poisoning attacks to local differential privacy protocols. USENIX
       Security.

    Examples
    --------
    >>> from skdp import RandomizedResponseEncoder
    >>> people = pd.DataFrame({"sex": ["F", "M"]})
    >>> encoder = RandomizedResponseEncoder(np.log(3), categories={"sex": ["F", "M"]}).fit(people)
    >>> poisoning_gain(encoder, n_fake=100, n_genuine=10_000).round(2).T
    column                     sex
    raised_by_one             1.50
    lowered_by_one            0.50
    values_at_once            1.00
    shift                   150.00
    std_error                86.60
    shift_in_std_errors       1.73
    """
    protocol = getattr(encoder, "protocol_", None)
    if isinstance(encoder, ReportTransformer) and hasattr(encoder, "estimate_counts"):
        check_is_fitted(encoder)
    if not isinstance(protocol, OracleProtocol):
        raise TypeError(f"encoder must be a local transformer with frequency oracles, got {type(encoder).__name__}")
    if protocol.strategy == "sample":
        raise ValueError("under strategy='sample' the estimates are not linear in the reports; use 'split' or 'joint'")
    for name, number, least in (("n_fake", n_fake, 0), ("n_genuine", n_genuine, 1)):
        if not isinstance(number, Integral) or isinstance(number, bool):
            raise TypeError(f"{name} must be an int, got {type(number).__name__}")
        if int(number) < least:
            raise ValueError(f"{name} must be at least {least}, got {number}")
    rows = []
    for oracle in protocol.oracles:
        raised, lowered = _contributions(oracle)
        shift, std_error = n_fake * raised, float(np.sqrt(oracle.variance(np.zeros(oracle.k), n_genuine)[0]))
        rows.append((raised, lowered, oracle.most_supported, shift, std_error, shift / std_error))
    names = ["raised_by_one", "lowered_by_one", "values_at_once", "shift", "std_error", "shift_in_std_errors"]
    columns = [columns[0] if len(columns) == 1 else columns for columns in protocol.attributes]
    return pd.DataFrame(rows, columns=names, index=pd.Index(columns, name="column", tupleize_cols=False))


def _contributions(oracle: FrequencyOracle) -> tuple[float, float]:
    """Return the change of the count of a value by one report that supports it, and the decrease by another."""
    # Of Hadamard response with several blocks, there are also values whose counts a report leaves as they are.
    supports = np.zeros((2, oracle.k))
    supports[0], supports[1] = 1, -int(oracle.is_signed)
    raised, lowered = (oracle.estimate(support, 1)[0] for support in supports)
    return (math.inf, math.inf) if math.isnan(raised) else (float(raised), float(-lowered))
