"""What an attack found: numbers and column names, and no value of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pandas as pd

from skdp.base import check_confidence_level
from skdp.evaluation._audit_bounds import clopper_pearson


@dataclass(frozen=True, eq=False)
class AttackResult:  # numpydoc ignore=PR02
    """How often an attacker guesses a protected value, and what that is to be compared with.

    Parameters
    ----------
    accuracy : float
        The share of rows whose value is guessed from all that is released, each by a model that has not seen the row.
    baseline : float
        The share of the most frequent value: what a guess gets right that looks at nothing.
    bayes_bound : float
        What the best guess from the visible reports alone, of the protected column and all others, can get right on
        average; nan if no epsilon was given.
    std_error : float
        The standard error of `accuracy`, over rows, the models given.
    n_rows : int
        The number of rows.
    bound : str
        What `bayes_bound` is: the exact value of the protocol, where only the protected column's own report is seen; or
        the largest value among all protocols of an epsilon, that of all reports of a record together where others are
        seen too.
    accuracy_without_report : float or None
        The accuracy of the same attack on the other columns alone; None if it is not known which ones are the report.
    std_error_without_report : float or None
        Its standard error.
    carriers : pandas.DataFrame
        A row a column, the most telling first: ``is_report``; ``alone``, the accuracy of the best guess from this
        column alone; ``drop``, how much accuracy the attack loses if the column is shuffled.

    See Also
    --------
    attribute_inference : Makes one.
    LeakageDisplay : Draws them.

    Examples
    --------
    >>> result = AttackResult(0.8, 0.6, 0.73, 0.01, n_rows=1600)
    >>> result.exceeds_bound
    True
    >>> low, high = result.interval()
    >>> round(low, 3), round(high, 3)
    (0.78, 0.819)
    """

    accuracy: float
    baseline: float
    bayes_bound: float
    std_error: float
    n_rows: int
    bound: str = ""
    accuracy_without_report: float | None = None
    std_error_without_report: float | None = None
    carriers: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)

    @property
    def exceeds_bound(self) -> bool:  # numpydoc ignore=RT01
        """Whether the lower end of `interval` is above the bound: columns that are no reports carry the value.

        If the attacker saw reports only, the release is not what the encoder or the epsilon promise.
        """
        return self.interval()[0] > self.bayes_bound

    def interval(self, confidence_level: float = 0.95, *, without_report: bool = False) -> tuple[float, float]:
        """Return an interval for an accuracy, over the draw of the rows, the models given.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Coverage, between 0 and 1.
        without_report : bool, default=False
            Whether of `accuracy_without_report`.

        Returns
        -------
        tuple of float
            The ends, by Clopper and Pearson; nan if there is no such accuracy.

        Raises
        ------
        ValueError
            If the confidence level is out of range.
        """
        level = check_confidence_level(confidence_level)
        share = self.accuracy_without_report if without_report else self.accuracy
        if share is None:
            return math.nan, math.nan
        return clopper_pearson(round(share * self.n_rows), self.n_rows, (1 - level) / 2)
