"""Attacks on a protocol: inference from many reports of one record, and the effect of fake reports."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skdp.evaluation.attacks._attacker import check_declared
from skdp.evaluation.attacks._bayes_bound import guessing_bound
from skdp.evaluation.displays import check_count
from skdp.frames import is_frame, read_table
from skdp.local import OracleProtocol, ReportTransformer
from skdp.oracles import FrequencyOracle
from skdp.typing import ColumnLike, TableLike


def repeated_releases(
    encoder: ReportTransformer,
    X: TableLike,
    *,
    n_releases: Iterable[int] = (1, 2, 4, 8, 16, 32),
    record_id: ColumnLike | None = None,
) -> pd.DataFrame:
    """Attack a local transformer by combining many reports of the same rows.

    The attacker knows the protocol and the frequency of each value, and guesses the most likely value given all reports
    of a row. With fresh randomness, m reports cost m times epsilon, and the guesses become right; with memoised
    reports, they do not.

    Parameters
    ----------
    encoder : local transformer
        With frequency oracles. It is cloned, without its ledger; the original is never fitted.
    X : dataframe or array-like of shape (n_samples, n_features)
        True values.
    n_releases : iterable of int, default=(1, 2, 4, 8, 16, 32)
        The numbers of releases to combine.
    record_id : array-like of shape (n_samples,), optional
        The ids of the persons, for an encoder with ``memoize=True``.

    Returns
    -------
    pandas.DataFrame
        A row for each attribute and number of releases: ``column`` (a tuple under "joint"), ``n_releases``,
        ``epsilon`` (of all these reports), ``accuracy``, ``std_error``, ``baseline`` (the share of the most
        frequent value) and ``bound``: the largest accuracy among all protocols of that epsilon.

    Raises
    ------
    TypeError, ValueError
        If the encoder is of another kind, `n_releases` are no numbers from 1, or the encoder refuses the rows.

    See Also
    --------
    guessing_bound : The bound.

    Notes
    -----
    **Privacy.** The result depends on true values and is not protected, and the releases are not charged: it is for
    data that is not sensitive.

    A memoised report that repeats the first one is ignored. With a second round of noise (``instantaneous_epsilon``),
    the attacker treats the reports as independent, which is not optimal; the bound for two or more releases is that of
    the permanent report, and holds for every attacker.

    Examples
    --------
    >>> from skdp import RandomizedResponseEncoder
    >>> people = pd.DataFrame({"sex": ["F", "M"] * 500})
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["F", "M"]}, random_state=0)
    >>> repeated_releases(encoder, people, n_releases=[1, 9]).round(2)
      column  n_releases  epsilon  accuracy  std_error  baseline  bound
    0    sex           1      1.0      0.72       0.01       0.5   0.73
    1    sex           9      9.0      0.94       0.01       0.5   1.00
    """
    wanted = _check_numbers(n_releases)
    fitted = _fit(encoder, X)
    protocol = fitted.protocol_
    truths = _true_codes(protocol, X)
    evidence = [np.zeros((len(truth), oracle.k)) for truth, oracle in zip(truths, protocol.oracles, strict=True)]
    repeats = protocol.permanent_key is not None and not protocol.permanent
    first: list[NDArray[Any]] | None = None
    rows = []
    for number in range(1, max(wanted) + 1):
        reports = fitted.transform(X) if record_id is None else fitted.transform(X, record_id=record_id)
        parts = protocol.parts(protocol.read(reports))
        for index, (oracle, (part, place)) in enumerate(zip(protocol.oracles, parts, strict=True)):
            if first is not None and repeats:
                changed = (part != first[index]).reshape(len(part), -1).any(axis=1)
                part, place = part[changed], place[changed]
            evidence[index][place] += np.log1p(float(oracle.support_ratio - 1) * oracle.supports(part))
        first = [part for part, _ in parts] if first is None else first
        if number in wanted:
            rows += [_judge(protocol, index, number, truths[index], evidence[index]) for index in range(len(truths))]
    return pd.DataFrame(rows)


def _fit(encoder: Any, X: Any) -> Any:
    if isinstance(encoder, ReportTransformer) and hasattr(encoder, "estimate_counts"):
        fitted = clone(encoder).set_params(ledger=None).set_output(transform="default").fit(X)
        if isinstance(fitted.protocol_, OracleProtocol):
            return fitted
    raise TypeError(f"encoder must be a local transformer with frequency oracles, got {type(encoder).__name__}")


def _check_numbers(n_releases: Any) -> list[int]:
    numbers = [n_releases] if isinstance(n_releases, Integral) else n_releases
    if isinstance(numbers, str) or not isinstance(numbers, Iterable):
        raise TypeError(f"n_releases must be a list of numbers, got {type(n_releases).__name__}")
    wanted = list(numbers)
    if not wanted or not all(isinstance(n, Integral) and not isinstance(n, bool) and int(n) >= 1 for n in wanted):
        raise ValueError("n_releases must be whole numbers from 1")
    return sorted({int(number) for number in wanted})


def _true_codes(protocol: OracleProtocol, X: Any) -> list[NDArray[np.intp]]:
    """Code the true values of each attribute."""
    codes = protocol.domain.encode(read_table(X if is_frame(X) else np.asarray(X)).columns)
    check_declared(protocol.domain, codes)
    named = dict(zip(protocol.columns, codes, strict=True))
    pairs = zip(protocol.domains, protocol.attributes, strict=True)
    return [domain.join([named[name] for name in columns]).astype(np.intp) for domain, columns in pairs]


def _judge(
    protocol: OracleProtocol, index: int, number: int, truth: NDArray[np.intp], evidence: NDArray[np.float64]
) -> dict[str, Any]:
    """Guess the most likely values, and compare with the truth."""
    prior = np.bincount(truth, minlength=evidence.shape[1]) / len(truth)
    with np.errstate(divide="ignore"):  # values that do not occur are never guessed
        accuracy = float((np.argmax(np.log(prior) + evidence, axis=1) == truth).mean())
    epsilon = number * protocol.oracles[index].epsilon
    if protocol.permanent_key is not None and number > 1:
        epsilon = (protocol.permanent or protocol.oracles)[index].epsilon
    return {
        "column": _labels(protocol)[index],
        "n_releases": number,
        "epsilon": epsilon,
        "accuracy": accuracy,
        "std_error": float(np.sqrt(accuracy * (1 - accuracy) / len(truth))),
        "baseline": float(prior.max()),
        "bound": guessing_bound(prior, epsilon),
    }


def poisoning_gain(encoder: ReportTransformer, n_fake: int, n_genuine: int) -> pd.DataFrame:
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

    The estimate is linear in the reports, so these numbers are exact and hold for any genuine reports: the estimate
    ``(support - n q) / (p - q)`` changes by ``(1 - q) / (p - q)`` for each report that supports the value and by
    ``-q / (p - q)`` for each that does not. (Hadamard response and the sketch have their own linear estimates.) In
    unary encoding, a report of ones raises every value, but stands out. A fake record that follows the protocol with a
    false value changes a count by 1 on average. Estimates with a postprocess, such as "simplex", change differently.

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
    check_count(n_fake, "n_fake", least=0)
    check_count(n_genuine, "n_genuine", least=1)
    rows = []
    for oracle in protocol.oracles:
        raised, lowered = _contributions(oracle)
        shift, std_error = n_fake * raised, float(np.sqrt(oracle.variance(np.zeros(oracle.k), n_genuine)[0]))
        rows.append((raised, lowered, oracle.most_supported, shift, std_error, shift / std_error))
    names = ["raised_by_one", "lowered_by_one", "values_at_once", "shift", "std_error", "shift_in_std_errors"]
    return pd.DataFrame(rows, columns=names, index=pd.Index(_labels(protocol), name="column", tupleize_cols=False))


def _labels(protocol: OracleProtocol) -> list[Any]:
    """Return the column of each attribute, or the tuple of its columns."""
    return [columns[0] if len(columns) == 1 else columns for columns in protocol.attributes]


def _contributions(oracle: FrequencyOracle) -> tuple[float, float]:
    """Return the change of the count of a value by one report that supports it, and the decrease by another."""
    # Of Hadamard response with several blocks, there are also values whose counts a report leaves as they are.
    supports = np.zeros((2, oracle.k))
    supports[0], supports[1] = 1, -int(oracle.is_signed)
    raised, lowered = (oracle.estimate(support, 1)[0] for support in supports)
    return (math.inf, math.inf) if math.isnan(raised) else (float(raised), float(-lowered))
