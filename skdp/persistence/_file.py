"""`save` and `load`: files in the skops format of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import is_zipfile

from sklearn.base import BaseEstimator

from skdp.base import PathType, check_ledger
from skdp.persistence._records import Records
from skdp.privacy import PrivacyLedger

# Types in files that are trusted in addition to the types that skops trusts.
_TRUSTED = (
    "skdp.persistence.Record",
    "imblearn.pipeline.Pipeline",
    "numpy.dtype",
)


def save(estimator: BaseEstimator, path: PathType | BinaryIO) -> None:
    """Save an estimator, or a pipeline of estimators, to a file without code.

    Parameters
    ----------
    estimator : estimator
        An estimator of skdp, or a pipeline with estimators of skdp and scikit-learn.
    path : str, path or binary file
        File to write, by convention with the extension ``.skops``.

    Raises
    ------
    TypeError
        If `estimator` is not an estimator, or has an attribute that cannot be saved.
    ValueError
        If an estimator has a secret key or was changed after `fit`, or if the
        estimators have several ledgers.

    See Also
    --------
    load : Loads the file.

    Notes
    -----
    Metadata requests of routing (``set_transform_request``) are not saved.

    **Privacy.** The file contains the parameters, the declared values and the noisy
    statistics of the estimator. An int `random_state` is a parameter, and with it the
    noise can be undone. The budget of a ledger is saved, its charges are not.

    The file has the format of skops [1]_, a ZIP file of JSON and arrays. Estimators of
    skdp are stored by their public names.

    References
    ----------
    .. [1] https://skops.readthedocs.io

    Examples
    --------
    >>> import io
    >>> import pandas as pd
    >>> import skdp
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> people = pd.DataFrame({"smokes": ["yes", "no", "no"]})
    >>> encoder = skdp.RandomizedResponseEncoder(1.0, categories={"smokes": ["no", "yes"]})
    >>> pipeline = make_pipeline(encoder, OneHotEncoder(handle_unknown="ignore")).fit(people)
    >>> file = io.BytesIO()
    >>> skdp.save(pipeline, file)
    >>> print(skdp.load(file)[0].guarantee_)
    epsilon = 1, local model, replacing one record's values of: smokes
    """
    import skops.io
    from skops.io.exceptions import UnsupportedTypeException

    if not isinstance(estimator, BaseEstimator):
        raise TypeError(
            f"`estimator` must be an estimator, got {type(estimator).__name__}."
        )
    packed = Records().pack(estimator)
    try:
        data = skops.io.dumps(packed)
    except (UnsupportedTypeException, RecursionError) as error:
        name = type(estimator).__name__
        raise TypeError(f"{name} cannot be saved: {type(error).__name__}.") from None
    if hasattr(path, "write"):
        path.write(data)
    else:
        Path(path).write_bytes(data)


def load(
    path: PathType | BinaryIO,
    *,
    ledger: PrivacyLedger | None = None,
    trusted: Sequence[str] = (),
) -> Any:
    """Load an estimator saved with `save`.

    Parameters
    ----------
    path : str, path or binary file
        File to read.
    ledger : PrivacyLedger, default=None
        Ledger of all estimators that had a ledger when they were saved. If None, they
        raise an error instead of a release.
    trusted : sequence of str, default=()
        Types of other packages to load, such as ``"my_package.MyScaler"``. Loading a
        type may run its code. Types of skdp and scikit-learn are trusted.

    Returns
    -------
    estimator
        An estimator of the same class, with the same parameters and fitted attributes.
        Like a clone, it counts its calls from 0: with a `random_state`, it repeats its
        first releases.

    Raises
    ------
    ValueError
        If the file was not written by `save`, is damaged, contains types that are not
        trusted, or contains a guarantee that does not follow from the parameters; or if
        `ledger` is given and no saved estimator had a ledger.
    TypeError
        If `ledger` is not a PrivacyLedger.

    See Also
    --------
    save : Saves the file.
    skdp.read_protocol : Finds the transformer in the metadata of reports.

    Notes
    -----
    **Privacy.** The file is not signed. The guarantee of a local transformer is computed
    from its parameters. For other estimators, the epsilon, delta and rho of the guarantee
    are compared with the parameters. All other fields of the guarantee, and all
    statistics, are as in the file.

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
    import skops.io

    check_ledger(ledger)
    file: Any = path
    if hasattr(path, "read"):
        file.seek(0)  # `save` leaves the position at the end
        data = file.read()
    else:
        data = Path(file).read_bytes()
    if not is_zipfile(BytesIO(data)):
        raise ValueError(
            "`path` must be a file of skdp.save, got another format. Use "
            "skdp.read_protocol for the protocol (JSON) of a local transformer."
        )
    # All types are checked before any object is created.
    records = Records(ledger)
    all_trusted = [*_TRUSTED, *trusted]
    message = ""
    try:
        unknown = set(skops.io.get_untrusted_types(data=data)).difference(all_trusted)
        if not unknown:
            estimator = records.unpack(skops.io.loads(data, trusted=all_trusted))
    except ValueError as error:
        message = str(error)
    except Exception as error:  # a damaged file can cause any exception
        message = (
            f"The file cannot be read ({type(error).__name__}): it is damaged, or was "
            "written by a later version of skdp."
        )
    # Raised outside of the handlers, because the context of an error is shown too.
    if message:
        raise ValueError(message)
    if unknown:
        remedy = ""
        if any(name.startswith("skdp.") for name in unknown):
            remedy = " If it was written by a later version of skdp, upgrade skdp."
        raise ValueError(f"`trusted` must contain the types {sorted(unknown)}.{remedy}")
    if ledger is not None and not records.has_ledger:
        raise ValueError(
            "`ledger` must be None, because no saved estimator had a ledger."
        )
    return estimator
