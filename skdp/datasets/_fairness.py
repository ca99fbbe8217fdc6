"""Public tables of studies of fairness under local privacy, read from a file or downloaded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import Any

import pandas as pd
from sklearn.datasets import fetch_file
from sklearn.utils import Bunch

from skdp.base import PathType
from skdp.domain import Domain, Interval

# Folders of published tables at a fixed commit.
_LDP_FAIRNESS = (
    "https://raw.githubusercontent.com/hharcolezi/ldp-fairness-impact/"
    "512752136637f8478b37acaaaf9d87f06685270c/datasets/"
)
_COMPAS_ANALYSIS = (
    "https://raw.githubusercontent.com/propublica/compas-analysis/"
    "bafff5da3f2e45eca6c2d5055faad269defd135a/"
)


@dataclass(frozen=True)
class _PublishedTable:
    """URL and digests of a published table, and the declared values of its columns."""

    name: str
    url: str
    # SHA-256 of the published file, for downloads.
    file_digest: str
    # SHA-256 of the columns that are used, as computed by `_digest`.
    digest: str
    # Declared values of the features and the target.
    domain: Domain
    target: str
    positive_label: int
    protected: tuple[str, ...]
    privileged: dict[str, Any]
    # Columns that are read, but are neither features nor the target.
    further: tuple[str, ...] = ()

    @property
    def features(self) -> list[str]:
        """Names of the columns of the domain except the target."""
        return [name for name in self.domain.columns if name != self.target]

    def read(self, path: PathType | None) -> pd.DataFrame:
        """Read the columns of the table from a file or the web, and verify their digest."""
        if path is None:
            path = self._download()
        columns = [*self.domain.columns, *self.further]
        try:
            frame = pd.read_csv(path, usecols=columns)[columns]
        except ValueError:
            # Errors of pandas contain text of the file, so another error is raised.
            frame = None
        if frame is None or _digest(frame) != self.digest:
            raise ValueError(
                f"`path` must be the table that is published at {self.url}, with the "
                f"columns {columns} unchanged, got another table."
            )
        return frame

    def _download(self) -> PathType:
        """Return the path of the file in scikit-learn's data folder; download it if it is absent."""
        try:
            return fetch_file(self.url, sha256=self.file_digest, n_retries=0)
        except OSError as error:
            raise OSError(
                f"{self.url} cannot be downloaded. Download it on a machine with "
                "network access, and pass its path."
            ) from error

    def make_bunch(self, frame: pd.DataFrame, **entries: Any) -> Bunch:
        """Return a table as a Bunch with data, target, domain and description."""
        description = resources.files("skdp.datasets").joinpath(f"data/{self.name}.rst")
        return Bunch(
            frame=frame,
            data=frame[self.features],
            target=frame[self.target].copy(),
            feature_names=self.features,
            target_names=list(self.domain[self.target].values),
            domain=self.domain,
            protected=list(self.protected),
            privileged=dict(self.privileged),
            positive_label=self.positive_label,
            url=self.url,
            sha256=self.file_digest,
            DESCR=description.read_text(encoding="utf-8"),
            **entries,
        )


def _digest(frame: pd.DataFrame) -> str:
    """Return the SHA-256 of a table, independent of the format of numbers and lines in its file."""
    # pandas writes equal tables as equal text.
    text = frame.to_csv(index=False, lineterminator="\n")
    return hashlib.sha256(text.encode()).hexdigest()


def _declare_codes(**sizes: int) -> dict[str, list[int]]:
    """Return the values 0, ..., size - 1 of each column of codes."""
    return {name: list(range(size)) for name, size in sizes.items()}


_ACS = _PublishedTable(
    name="acs_public_coverage",
    url=_LDP_FAIRNESS + "db_ACSCoverage.csv",
    file_digest="d3a2713e71b6557f07b22dc0e77ff885ceac3ff522146027524d39512a007ff7",
    digest="92d208e6839b67bd9c846a25ef6fab8f0d8c4bcd7e93c083ece5e29a43fd196a",
    # Codes of the published file. Its sixteenth column, the state, has a single value.
    domain=Domain(
        _declare_codes(
            AGEP=50,
            SCHL=24,
            MAR=5,
            SEX=2,
            DIS=2,
            ESP=9,
            CIT=5,
            MIG=3,
            MIL=5,
            ANC=4,
            NATIVITY=2,
            ESR=7,
            FER=3,
            RAC1P=2,
            PUBCOV=2,
        )
    ),
    target="PUBCOV",
    positive_label=1,
    protected=("DIS", "AGEP", "SEX", "SCHL"),
    privileged={"DIS": 1, "SEX": 1},
)

_LSAC = _PublishedTable(
    name="lsac",
    url=_LDP_FAIRNESS + "db_LSAC.csv",
    file_digest="296a428e55cc5f2b7f4f8d9374f6c11320dfe022a64e752a582014bf0e560e1d",
    digest="296a428e55cc5f2b7f4f8d9374f6c11320dfe022a64e752a582014bf0e560e1d",
    domain=Domain(
        _declare_codes(
            fam_inc=5, gender=2, fulltime=2, race1=2, lsat=37, ugpa=6, pass_bar=2
        )
    ),
    target="pass_bar",
    positive_label=1,
    protected=("race1", "fam_inc", "gender", "fulltime"),
    privileged={"race1": 1, "gender": 1},
)

_COMPAS = _PublishedTable(
    name="compas",
    url=_COMPAS_ANALYSIS + "compas-scores-two-years.csv",
    file_digest="c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
    digest="50f479eaa15b79be8281e76c87135f40e50049d3f0e86ad5a3f7c0a4ceb0ff2c",
    domain=Domain(
        {
            "sex": ["Female", "Male"],
            "age": Interval(18, 98, bins=16),
            "race": [
                "African-American",
                "Asian",
                "Caucasian",
                "Hispanic",
                "Native American",
                "Other",
            ],
            "juv_fel_count": Interval(edges=[0, 1, 2, 5, 50]),
            "juv_misd_count": Interval(edges=[0, 1, 2, 5, 50]),
            "juv_other_count": Interval(edges=[0, 1, 2, 5, 50]),
            "priors_count": Interval(edges=[0, 1, 2, 3, 5, 10, 20, 100]),
            "c_charge_degree": ["F", "M"],
            "two_year_recid": [0, 1],
        }
    ),
    target="two_year_recid",
    # No recidivism is the favorable outcome.
    positive_label=0,
    protected=("race", "sex", "age"),
    privileged={"race": "Caucasian", "sex": "Female"},
    further=("days_b_screening_arrest", "decile_score", "score_text", "is_recid"),
)


def load_acs_public_coverage(path: PathType | None = None) -> Bunch:
    """Load the ACS Public Coverage dataset (classification of coverage by public health insurance).

    The dataset has 98,739 people of the American Community Survey and 14 columns of codes, as prepared for [1]_.

    Parameters
    ----------
    path : str or path-like, default=None
        Path of the published file ``db_ACSCoverage.csv`` or of a compressed copy. If None, the file is downloaded once
        to the data folder of scikit-learn (`sklearn.datasets.get_data_home`).

    Returns
    -------
    :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the entries

        - data: DataFrame of shape (98739, 14) with the codes of the published file.
        - target: Series of shape (98739,) with ``PUBCOV``, 1 if the person is covered and 0 otherwise.
        - frame: DataFrame of shape (98739, 15) with data and target.
        - feature_names: names of the columns of the data.
        - target_names: the two labels.
        - domain: `Domain` of all columns of the frame, from the documentation.
        - protected: columns that [1]_ protects: DIS, AGEP, SEX, SCHL.
        - privileged: value of the privileged group for some of these columns, ``{"DIS": 1, "SEX": 1}``.
        - positive_label: favorable label, 1.
        - url, sha256: URL and digest of the published file.
        - DESCR: description of the dataset, with its source and license.

    Raises
    ------
    ValueError
        If the file contains another table.
    OSError
        If the file cannot be read or downloaded.

    See Also
    --------
    load_lsac, load_compas, load_adult : Other tables with protected columns.

    Notes
    -----
    **Privacy.** The table is public. ``domain`` does not depend on its rows and is public as well.

    References
    ----------
    .. [1] H. H. Arcolezi, K. Makhlouf, C. Palamidessi (2023). (Local) differential privacy has NO disparate impact on
       fairness. DBSec 2023. arXiv:2304.12845

    Examples
    --------
    >>> from skdp.datasets import load_acs_public_coverage
    >>> acs = load_acs_public_coverage("db_ACSCoverage.csv")  # doctest: +SKIP
    >>> acs.data.shape, acs.privileged  # doctest: +SKIP
    ((98739, 14), {'DIS': 1, 'SEX': 1})
    """
    return _ACS.make_bunch(_ACS.read(path))


def load_lsac(path: PathType | None = None) -> Bunch:
    """Load the law school (LSAC) dataset (classification of students who pass the bar exam).

    The dataset has 20,427 students of the longitudinal study of the Law School Admission Council and 6 columns of
    codes, as prepared for [1]_.

    Parameters
    ----------
    path : str or path-like, default=None
        Path of the published file ``db_LSAC.csv`` or of a compressed copy. If None, the file is downloaded once to the
        data folder of scikit-learn (`sklearn.datasets.get_data_home`).

    Returns
    -------
    :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the entries of `load_acs_public_coverage`: data of shape (20427, 6), the target
        ``pass_bar`` (1 if passed), the protected columns race1, fam_inc, gender and fulltime, and ``privileged =
        {"race1": 1, "gender": 1}``.

    Raises
    ------
    ValueError
        If the file contains another table.
    OSError
        If the file cannot be read or downloaded.

    See Also
    --------
    load_acs_public_coverage, load_compas, load_adult : Other tables with protected columns.

    Notes
    -----
    **Privacy.** The table is public. ``domain`` does not depend on its rows and is public as well.

    References
    ----------
    .. [1] H. H. Arcolezi, K. Makhlouf, C. Palamidessi (2023). (Local) differential privacy has NO disparate impact on
       fairness. DBSec 2023. arXiv:2304.12845

    Examples
    --------
    >>> from skdp.datasets import load_lsac
    >>> lsac = load_lsac("db_LSAC.csv")  # doctest: +SKIP
    >>> lsac.protected  # doctest: +SKIP
    ['race1', 'fam_inc', 'gender', 'fulltime']
    """
    return _LSAC.make_bunch(_LSAC.read(path))


def load_compas(path: PathType | None = None) -> Bunch:
    """Load the COMPAS dataset (classification of recidivism within two years).

    The dataset has the 6,172 defendants of Broward County, Florida, of ProPublica's analysis [1]_, who were scored
    by the COMPAS tool and arrested within 30 days of the screening. Names, dates and case numbers are not read.

    Parameters
    ----------
    path : str or path-like, default=None
        Path of the published file ``compas-scores-two-years.csv`` or of a compressed copy. Columns that are not used
        may be missing. If None, the file is downloaded once to the data folder of scikit-learn
        (`sklearn.datasets.get_data_home`).

    Returns
    -------
    :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the entries of `load_acs_public_coverage`: data with 8 columns, the target
        ``two_year_recid``, whose favorable label is 0, the protected columns race, sex and age, and ``privileged =
        {"race": "Caucasian", "sex": "Female"}``. The additional entry decile_score is a Series with the scores of the
        tool, from 1 (low risk) to 10.

    Raises
    ------
    ValueError
        If the file contains another table.
    OSError
        If the file cannot be read or downloaded.

    See Also
    --------
    load_acs_public_coverage, load_lsac, load_adult : Other tables with protected columns.

    Notes
    -----
    **Privacy.** The table is public. ``domain`` does not depend on its rows and is public as well.

    References
    ----------
    .. [1] J. Larson, S. Mattu, L. Kirchner, J. Angwin (2016). How we analyzed the COMPAS recidivism algorithm.
       ProPublica.

    Examples
    --------
    >>> from skdp.datasets import load_compas
    >>> compas = load_compas("compas-scores-two-years.csv")  # doctest: +SKIP
    >>> compas.data.shape, compas.positive_label  # doctest: +SKIP
    ((6172, 8), 0)
    """
    frame = _COMPAS.read(path)
    # If the arrest is more than 30 days from the screening, its charge may not be the
    # charge that led to the score. The two other conditions of the published analysis hold
    # for all remaining rows.
    is_within = frame["days_b_screening_arrest"].abs() <= 30
    frame = frame[is_within].reset_index(drop=True)
    scores = frame["decile_score"].copy()
    return _COMPAS.make_bunch(frame[list(_COMPAS.domain.columns)], decile_score=scores)
