"""Published tables of studies of fairness: ACS Public Coverage, LSAC and COMPAS.

They are read from a file or downloaded, and their digests are checked. The domains are
from the documentation of the files.

- ACS: https://github.com/hharcolezi/ldp-fairness-impact, file datasets/db_ACSCoverage.csv,
  which was made from tables of folktables (F. Ding, M. Hardt, J. Miller, L. Schmidt 2021).
  License of the repository: MIT; of the survey's data: the terms of the U.S. Census Bureau.
- LSAC: the same repository, file datasets/db_LSAC.csv. License: MIT; the study of
  L. F. Wightman (1998) is published as ERIC ED469370.
- COMPAS: J. Larson, S. Mattu, L. Kirchner, J. Angwin (2016), ProPublica,
  https://github.com/propublica/compas-analysis, file compas-scores-two-years.csv. Names,
  dates and case numbers are not read. No license is stated by the source.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from sklearn.datasets import fetch_file

from skdp import Domain, Interval

# Folders of published tables at a fixed commit.
LDP_FAIRNESS = (
    "https://raw.githubusercontent.com/hharcolezi/ldp-fairness-impact/"
    "512752136637f8478b37acaaaf9d87f06685270c/datasets/"
)
COMPAS_ANALYSIS = (
    "https://raw.githubusercontent.com/propublica/compas-analysis/"
    "bafff5da3f2e45eca6c2d5055faad269defd135a/"
)


@dataclass(frozen=True)
class PublishedTable:
    """URL and digests of a published table, its domain and its target."""

    # Name of the file in SKDP_BENCH_DATA.
    file: str
    url: str
    # SHA-256 of the published file, and of the columns that are used.
    file_digest: str
    digest: str
    domain: Domain
    target: str
    # Columns that are read, and are not in the domain.
    further: tuple[str, ...] = ()

    def read(self, folder: str | None) -> pd.DataFrame:
        """Read the columns of the table from a folder or the web, and check their digest."""
        if folder is None:
            path = fetch_file(self.url, sha256=self.file_digest, n_retries=0)
        else:
            path = Path(folder) / self.file
        columns = [*self.domain.columns, *self.further]
        frame = pd.read_csv(path, usecols=columns)[columns]
        # pandas writes equal tables as equal text.
        text = frame.to_csv(index=False, lineterminator="\n")
        if hashlib.sha256(text.encode()).hexdigest() != self.digest:
            raise ValueError(
                f"{path} must be the table at {self.url}, got another one."
            )
        if "days_b_screening_arrest" in self.further:
            # If the arrest is more than 30 days from the screening, its charge may not be
            # the charge that led to the score.
            is_within = frame["days_b_screening_arrest"].abs() <= 30
            frame = frame[is_within].reset_index(drop=True)
        return frame[list(self.domain.columns)]


def declare_codes(**sizes: int) -> dict[str, list[int]]:
    """Return the values 0, ..., size - 1 of each column of codes."""
    return {name: list(range(size)) for name, size in sizes.items()}


# Predicted are public health insurance, recidivism within two years, and passing the bar exam.
TABLES = {
    # The sixteenth column of the file, the state, has a single value.
    "ACS": PublishedTable(
        "acs_public_coverage.csv.gz",
        LDP_FAIRNESS + "db_ACSCoverage.csv",
        "d3a2713e71b6557f07b22dc0e77ff885ceac3ff522146027524d39512a007ff7",
        "92d208e6839b67bd9c846a25ef6fab8f0d8c4bcd7e93c083ece5e29a43fd196a",
        Domain(
            declare_codes(
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
        "PUBCOV",
    ),
    "COMPAS": PublishedTable(
        "compas_two_years.csv.gz",
        COMPAS_ANALYSIS + "compas-scores-two-years.csv",
        "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
        "50f479eaa15b79be8281e76c87135f40e50049d3f0e86ad5a3f7c0a4ceb0ff2c",
        Domain(
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
        "two_year_recid",
        ("days_b_screening_arrest", "decile_score", "score_text", "is_recid"),
    ),
    "LSAC": PublishedTable(
        "lsac.csv.gz",
        LDP_FAIRNESS + "db_LSAC.csv",
        "296a428e55cc5f2b7f4f8d9374f6c11320dfe022a64e752a582014bf0e560e1d",
        "296a428e55cc5f2b7f4f8d9374f6c11320dfe022a64e752a582014bf0e560e1d",
        Domain(
            declare_codes(
                fam_inc=5, gender=2, fulltime=2, race1=2, lsat=37, ugpa=6, pass_bar=2
            )
        ),
        "pass_bar",
    ),
}
