"""`save` and `load`: one file for an estimator or a pipeline, in which nothing is run."""

from __future__ import annotations

import json
import os
import warnings
import zipfile
from contextlib import ExitStack
from typing import Any, BinaryIO

import sklearn
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

from skdp.archive import SUMS, Archive, reading, write_archive
from skdp.base import PathType, check_ledger
from skdp.domain import parse_json
from skdp.local import ReportTransformer
from skdp.persistence._estimators import read_estimator, write_estimator
from skdp.persistence._values import Reader, Writer
from skdp.privacy import PrivacyLedger

_FORMAT, _VERSION, _HEADER = "skdp.estimator", 1, "estimator.json"

_LONGEST, _MOST_ITEMS = 1 << 24, 1 << 20
"""Characters and values of the JSON, so that reading it takes less than a few seconds and 300 MB."""


_LONGEST_PROTOCOL = 1 << 26
"""Bytes of a protocol of at most 2**24 characters, which its reader counts."""


def save(
    estimator: BaseEstimator, path: PathType | BinaryIO, *, secrets: bool = False
) -> None:
    """Write an estimator, or a pipeline of estimators, to a file without code.

    Parameters
    ----------
    estimator : estimator
        An estimator of skdp, or a Pipeline, ColumnTransformer or FeatureUnion of such and of estimators of scikit-learn
        whose fitted state is plain arrays; usually fitted.
    path : str, path or binary file
        Where to; a file that is there is replaced.
    secrets : bool, default=False
        Whether the file may hold the secret keys of permanent reports. A file at a path is then for its owner alone
        (mode 0600), also where it is there already.

    Raises
    ------
    TypeError
        If there is an estimator, a parameter or a fitted attribute that cannot be saved; the error names it.
    ValueError
        If there is a secret key and `secrets` is False, the estimators have different ledgers, a Pipeline has a cache
        (`memory`), a local transformer has other parameters than it was fitted with, or there is more than `load`
        accepts (some 100,000 declared values).
    OSError
        If the file cannot be written.

    See Also
    --------
    load : Reads the file.
    skdp.persistence.register : Classes of other packages.

    Notes
    -----
    **Privacy.** The file holds what the estimator holds: parameters, noisy statistics and what is declared. It is as
    public as the estimator, with two exceptions. A `random_state` is kept, and with it the noise can be undone, as
    the guarantee says (NOT SECURE). With ``secrets=True``, the noise of permanent reports can be undone by all who can
    read the file. A ledger is not saved, only that there is one, and its budget.

    Local transformers are saved as what they are fitted with; `load` makes their protocol again and compares it.

    Examples
    --------
    >>> import io
    >>> import pandas as pd
    >>> import skdp
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> people = pd.DataFrame({"smokes": ["yes", "no", "no"]})
    >>> response = skdp.RandomizedResponseEncoder(1.0, categories={"smokes": ["no", "yes"]})
    >>> pipeline = make_pipeline(response, OneHotEncoder(handle_unknown="ignore")).fit(people)
    >>> file = io.BytesIO()
    >>> skdp.save(pipeline, file)
    >>> print(skdp.load(file)[0].guarantee_)
    epsilon = 1, local model, replacing one record's values of: smokes
    """
    if not isinstance(estimator, BaseEstimator):
        raise TypeError(
            "estimator must be an estimator or a pipeline, got"
            f" {type(estimator).__name__}"
        )
    writer = Writer(write_estimator, secrets=secrets)
    try:
        content = write_estimator(estimator, writer)
        header = {
            "format": _FORMAT,
            "version": _VERSION,
            "scikit-learn": sklearn.__version__,
            "estimator": content,
        }
        text = json.dumps(header, allow_nan=False)
    except RecursionError:
        raise ValueError("the estimators are nested too deeply") from None
    if parse_json(text, "what describes the estimators", _MOST_ITEMS) is None:
        raise ValueError(
            "the estimators are nested too deeply, or have numbers that are too long"
        )
    with ExitStack() as stack:
        file = (
            stack.enter_context(_open_private(path))
            if secrets and not hasattr(path, "write")
            else path
        )
        write_archive(file, {_HEADER: text, **writer.arrays}, sums=True)


def load(path: PathType | BinaryIO, *, ledger: PrivacyLedger | None = None) -> Any:
    """Read what `save` wrote. Nothing in the file is executed, and its size bounds the memory that is taken.

    Parameters
    ----------
    path : str, path or binary file
        The file: of `skdp.save`, or the protocol of reports that the method `save` of a local transformer wrote.
    ledger : PrivacyLedger, optional
        The ledger of all estimators that had one when they were saved. Without it, these refuse every release that
        would be charged.

    Returns
    -------
    estimator
        An estimator of the same class, with the same parameters and fitted attributes. Like a copy, it counts its
        calls from 0, so that with a `random_state` it repeats them. Of a protocol, what `from_json` of the transformer
        returns: it has no ledger, no seed, and no key but one of its own.

    Raises
    ------
    ValueError
        If it is no such file, of another version, damaged, or holds a class that is not known, or if `ledger` is given
        and no estimator had one.
    TypeError
        If `ledger` is no PrivacyLedger.
    ImportError
        If it is about tables or estimators of a library that is not installed.
    OSError
        If the file cannot be read.

    Warns
    -----
    InconsistentVersionWarning
        If it was saved with another version of scikit-learn.

    See Also
    --------
    save : Writes the file.
    skdp.read_protocol : Finds the transformer that reports carry.

    Notes
    -----
    **Privacy.** Checksums detect damage, but not a forger, who computes them: of a file from an untrusted source,
    nothing is run, but its numbers may be any. The guarantee of a local transformer is computed again from its
    parameters; that of all others is as the file states it.

    Examples
    --------
    >>> import io
    >>> import skdp
    >>> scaler = skdp.DPStandardScaler(1.0, bounds=(0, 100), random_state=0).fit([[20.0], [60.0]] * 500)
    >>> file = io.BytesIO()
    >>> skdp.save(scaler, file)
    >>> (skdp.load(file).mean_ == scaler.mean_).all()
    np.True_
    """
    check_ledger(ledger)
    protocol = _protocol_in(path)
    if protocol is not None:
        if ledger is not None:
            raise ValueError(
                "ledger is given, but the file is a protocol, which has none: give the"
                " transformer one by set_params"
            )
        return ReportTransformer.from_json(protocol)
    _refuse_table(path)
    with Archive(path, _HEADER) as file:
        with reading("header"):
            header = parse_json(file.text(_HEADER, _LONGEST), "it", _MOST_ITEMS)
            if not isinstance(header, dict) or header.get("format") != _FORMAT:
                raise ValueError("this is no file that skdp.save wrote")
        if header.get("version") != _VERSION:
            raise ValueError(
                f"the file has version {header.get('version')!r}; this skdp reads"
                f" version {_VERSION}"
            )
        with reading("list of digests"):
            file.check_sums()
        reader = Reader(file.array, read_estimator, ledger)
        with reading("estimator"):
            estimator = read_estimator(header["estimator"], reader)
            if file.names != reader.names | {_HEADER, SUMS}:
                raise ValueError("the file has a part that nothing refers to")
    if ledger is not None and not reader.has_ledger:
        raise ValueError(
            "ledger is given, but no estimator of the file had one when it was saved"
        )
    made_with = header.get("scikit-learn")
    if made_with != sklearn.__version__:
        warnings.warn(
            InconsistentVersionWarning(
                estimator_name=type(estimator).__name__,
                current_sklearn_version=sklearn.__version__,
                original_sklearn_version=str(made_with)[:50],
            ),
            stacklevel=2,
        )
    return estimator


_TABLES = (".csv", ".tsv", ".parquet", ".arrow", ".feather", ".ipc")

_PROTOCOL = '"skdp-protocol"'
"""What is in the text of each protocol of reports."""


def _protocol_in(path: Any) -> str | None:
    """Read the protocol of reports from a file of text; None if it is another file."""
    with ExitStack() as stack:
        file = path if hasattr(path, "read") else stack.enter_context(open(path, "rb"))
        start = file.tell()
        is_object = file.read(1) == b"{"
        file.seek(start)
        if not is_object:
            return None
        content = file.read(_LONGEST_PROTOCOL + 1)
        file.seek(start)
    try:
        text: str = content.decode()
    except UnicodeDecodeError:
        return None
    return text if _PROTOCOL in text else None


def _refuse_table(path: Any) -> None:
    """Refuse a file of reports, by its name, and say what reads it."""
    if hasattr(path, "read") or zipfile.is_zipfile(path):
        return
    name = os.path.basename(os.fspath(path))
    if name.removesuffix(".gz").endswith(_TABLES):
        raise ValueError(
            f"{name} is no file that skdp.save wrote: if it holds reports,"
            f" skdp.read_protocol({name!r}) returns the transformer that made them"
        )


def _open_private(path: Any) -> BinaryIO:
    """Open a file that only its owner may read, before anything is in it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags, 0o600)
    os.chmod(path, 0o600)
    return os.fdopen(handle, "wb")
