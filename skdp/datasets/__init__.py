"""Adult ("Census Income"), a public table with protected columns."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any, Literal

import pandas as pd
from sklearn.utils import Bunch

from skdp.domain import Domain, Interval

__all__ = ["load_adult"]

# Public values of the text columns, as listed in the documentation of the data (adult.names),
# separated by spaces.
_LEVELS = {
    "workclass": (
        "Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc"
        " State-gov Without-pay"
    ),
    "education": (
        "10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors"
        " Doctorate HS-grad Masters Preschool Prof-school Some-college"
    ),
    "marital-status": (
        "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent"
        " Never-married Separated Widowed"
    ),
    "occupation": (
        "Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing"
        " Handlers-cleaners Machine-op-inspct Other-service Priv-house-serv"
        " Prof-specialty Protective-serv Sales Tech-support Transport-moving"
    ),
    "relationship": "Husband Not-in-family Other-relative Own-child Unmarried Wife",
    "race": "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White",
    "sex": "Female Male",
    "native-country": (
        "Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador"
        " England France Germany Greece Guatemala Haiti Holand-Netherlands Honduras"
        " Hong Hungary India Iran Ireland Italy Jamaica Japan Laos Mexico Nicaragua"
        " Outlying-US(Guam-USVI-etc) Peru Philippines Poland Portugal Puerto-Rico"
        " Scotland South Taiwan Thailand Trinadad&Tobago United-States Vietnam"
        " Yugoslavia"
    ),
    "income": "<=50K >50K",
}
# Text columns with missing values, which are "?" in the file.
_MAY_BE_MISSING = ("workclass", "occupation", "native-country")
# Ranges of numeric columns that the forms of the census allow, with bins chosen by skdp.
_NUMBERS: dict[str, Any] = {
    "age": Interval(15, 95, bins=16),
    "fnlwgt": Interval(0, 2_000_000, bins=40),
    "education-num": range(1, 17),
    "capital-gain": Interval(edges=[0, 1, 5000, 10_000, 100_000]),
    "capital-loss": Interval(edges=[0, 1, 1500, 2000, 5000]),
    "hours-per-week": Interval(0, 100, bins=20),
}


def load_adult(
    *,
    subset: Literal["train", "test", "all"] = "train",
    dropna: bool = False,
    return_X_y: bool = False,
) -> Any:
    """Load the Adult ("Census Income") dataset (classification of incomes above 50,000 dollars a year).

    The data by B. Becker and R. Kohavi ([1]_, licensed under CC BY 4.0) are included in skdp.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="train"
        Rows to load: 32,561 training rows, 16,281 test rows, or all 48,842 rows with the training rows first.
    dropna : bool, default=False
        If True, drop the rows with a missing value and reset the index. 30,162 training rows and 15,060 test rows
        remain.
    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    :class:`~sklearn.utils.Bunch` or (data, target)
        Dictionary-like object with the entries

        - data: DataFrame of shape (n_samples, 14). Text columns are categorical, with the sorted values
          that the documentation of the data lists. A missing value is nan, which is not a category.
        - target: Series of shape (n_samples,) with the ``income``, "<=50K" or ">50K".
        - frame: DataFrame of shape (n_samples, 15) with data and target.
        - feature_names: names of the columns of the data.
        - target_names: the two labels.
        - domain: `Domain` of all columns of the frame, from the documentation of the data. Numeric columns have bins.
          Missing is a value of workclass, occupation and native-country, unless `dropna` is True. Use
          ``domain.select(columns)`` to select columns.
        - protected: columns that fairness studies protect: age, race, sex and native-country.
        - privileged: value of the privileged group for some of these columns, ``{"race": "White", "sex": "Male"}``.
        - positive_label: favorable label, ">50K".
        - DESCR: description of the dataset, with its source and license.

    Raises
    ------
    ValueError
        If `subset` is invalid.

    See Also
    --------
    skdp.metrics.to_aif360 : Convert any table to a dataset of aif360.

    Notes
    -----
    **Privacy.** The data are public. ``domain`` does not depend on the loaded rows, and it is public as well. The
    categorical dtypes do not declare the values, because they are not ordered.

    References
    ----------
    .. [1] B. Becker, R. Kohavi (1996). Adult [Dataset]. UCI Machine Learning Repository. doi:10.24432/C5XW20

    Examples
    --------
    >>> from skdp.datasets import load_adult
    >>> adult = load_adult()
    >>> adult.data.shape, adult.target_names
    ((32561, 14), ['<=50K', '>50K'])
    >>> int((adult.frame["occupation"] == "Sales").sum())
    3650

    Use the declared domain for an encoder:

    >>> from skdp import RandomizedResponseEncoder
    >>> people = adult.data[["race", "sex"]]
    >>> encoder = RandomizedResponseEncoder(1.0, strategy="joint", categories=adult.domain.select(people.columns))
    >>> encoder.fit(people).domain_["sex"]
    ['Female', 'Male']
    """
    if subset not in ("train", "test", "all"):
        raise ValueError(f"`subset` must be 'train', 'test' or 'all', got {subset!r}.")
    frame = _read_table()
    if subset != "all":
        frame = frame[frame["split"] == subset]
    frame = frame.drop(columns="split")
    if dropna:
        frame = frame.dropna()
    frame = frame.reset_index(drop=True)
    data, target = frame.drop(columns="income"), frame["income"].copy()
    if return_X_y:
        return data, target
    return Bunch(
        frame=frame,
        data=data,
        target=target,
        feature_names=data.columns.to_list(),
        target_names=_LEVELS["income"].split(),
        domain=_make_domain(frame.columns, missing=not dropna),
        protected=["age", "race", "sex", "native-country"],
        privileged={"race": "White", "sex": "Male"},
        positive_label=">50K",
        DESCR=resources.files("skdp.datasets")
        .joinpath("data/adult.rst")
        .read_text(encoding="utf-8"),
    )


def _make_domain(columns: Iterable[str], *, missing: bool) -> Domain:
    """Return the domain of some columns, with or without missing values."""
    declared = dict(_NUMBERS)
    for name, levels in _LEVELS.items():
        declared[name] = levels.split()
        if missing and name in _MAY_BE_MISSING:
            declared[name].append(None)
    return Domain(declared).select(columns)


@cache
def _read_table() -> pd.DataFrame:
    """Read the file of the package; the cached result must not be modified."""
    dtypes = {}
    for name, levels in _LEVELS.items():
        dtypes[name] = pd.CategoricalDtype(levels.split())
    with (
        resources.files("skdp.datasets")
        .joinpath("data/adult.csv.gz")
        .open("rb") as file
    ):
        return pd.read_csv(
            file,
            compression="gzip",
            dtype=dtypes,
            # No other text, such as "NA", is a missing value.
            na_values=["?"],
            keep_default_na=False,
        )
