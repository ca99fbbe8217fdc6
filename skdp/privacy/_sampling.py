"""Releases from a secret random sample of the records."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from skdp.exact import exp_bounds, round_up
from skdp.privacy._guarantee import TRUSTS, PrivacyGuarantee
from skdp.privacy._numbers import check_epsilon, check_rate, on_sample
from skdp.privacy.accounting import amplified, sampled

_MOST_EPSILON, _SMALL = 500.0, 2.0**-40

_LEAST_RATE = 1e-60
"""Of an estimator: counts and squares of errors that are divided by the rate do not overflow."""


def subsampled_guarantee(guarantee: PrivacyGuarantee, rate: float | Fraction) -> PrivacyGuarantee:
    """Return the guarantee of a release from a secret random sample, of that which it has given the sample.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        The guarantee for the records of the sample. It must hold for samples of all sizes that are possible.
    rate : float or Fraction
        The probability with which a record is in the sample, in (0, 1]; public.

    Returns
    -------
    PrivacyGuarantee
        With ``log(1 + rate * (e**epsilon - 1))`` as its epsilon, and ``rate * delta`` as its delta. Rho stays. Its
        losses, from which `compose` finds a smaller epsilon for several releases, are those of the sample.

    Raises
    ------
    TypeError, ValueError
        If a parameter is of another type, or the rate is out of range.

    See Also
    --------
    Sampled : A guarantee after sampling, as the epsilon of an estimator.
    skdp.shuffle_reports : Draws a secret sample of reports.

    Notes
    -----
    **Privacy.** It holds for two samplers ([1]_, theorems 8 and 9), and for no others:

    - relation ``"add_remove"``: each record is in the sample independently, with probability `rate`;
    - relation ``"replace"``: the sample is a uniform set of exactly `rate` times the number of records.

    The sampler is trusted. **Who is in the sample must stay secret**, also from those who can see the size of files or
    the time that it takes, and **be drawn again for each release**: of two releases from one sample, the sum is
    subsampled; it is not the sum of two subsampled guarantees. A record is a row: what is stated is for persons with
    one; it holds for all rows of a person only if all are in the sample or none. Reports that are sampled independently
    gain nothing under ``"replace"``, as it shows whether a report is there. A sample hides nothing in rho and mu, as
    the record that is in it has the loss of the whole, so ledgers in rho and mu are charged as if there were none,
    unless delta is 0.

    References
    ----------
    .. [1] B. Balle, G. Barthe, M. Gaboardi (2018). Privacy amplification by subsampling: tight analyses via couplings
       and divergences. NeurIPS. arXiv:1807.01647

    Examples
    --------
    >>> from skdp.privacy import PrivacyGuarantee, subsampled_guarantee
    >>> one = PrivacyGuarantee(1.0, relation="add_remove", trust="central")
    >>> print(subsampled_guarantee(one, 0.1))
    epsilon = 0.158566, central model, adding or removing one record
    """
    if not isinstance(guarantee, PrivacyGuarantee):
        raise TypeError(f"guarantee must be a PrivacyGuarantee, got {type(guarantee).__name__}")
    exact = check_rate(rate)
    if exact == 1:
        return guarantee
    name = on_sample(exact)
    return replace(
        guarantee,
        epsilon=amplified(Fraction(guarantee.epsilon), exact),
        delta=round_up(exact * Fraction(guarantee.delta)),
        trust=max(guarantee.trust, "shuffle", key=TRUSTS.index),
        mechanism=f"{guarantee.mechanism}, {name}" if guarantee.mechanism else name,
        losses=sampled(guarantee._all_losses(), exact),
        max_rows_per_person=1,  # some row of a person with several is in the sample more often than a single one
    )


@dataclass(frozen=True)
class Sampled:
    """The guarantee that a release from a secret random sample shall have, as the `epsilon` of a central estimator.

    ``fit`` draws the sample, each record independently with probability `rate`, and computes the release from it, with
    less noise than the same epsilon has without a sample.

    Parameters
    ----------
    epsilon : float
        The privacy loss of a record of the table; finite and > 0.
    rate : float or Fraction
        The probability with which a record is in the sample, from 1e-60 to 1; public.

    Raises
    ------
    TypeError, ValueError
        If a number is out of range, or there would be no noise.

    See Also
    --------
    subsampled_guarantee : The guarantee for a sample, of that for its records.

    Notes
    -----
    **Privacy.** As for `subsampled_guarantee` with the relation ``"add_remove"``: the noise is that of the epsilon
    ``log(1 + (e**epsilon - 1) / rate)``, rounded down, and of ``delta / rate``. The sample is drawn in ``fit`` with
    exact secure randomness, after the charge, once for each ``fit``, and forgotten. Errors depend on all records, as
    without a sample. Time depends on the size of the sample, as it does on the number of rows.

    A sample saves time where rows are many; it does not save error. Noise is less by a factor that is never as small as
    the rate, and the counts of a sample are divided by the rate.

    Examples
    --------
    >>> from skdp import DPHistogram
    >>> from skdp.datasets import load_adult
    >>> from skdp.privacy import Sampled
    >>> sexes = load_adult().data[["sex"]]
    >>> domain = {"sex": ["Female", "Male"]}
    >>> counts = DPHistogram(Sampled(0.5, rate=0.1), domain=domain, random_state=0).fit(sexes)
    >>> counts.guarantee_.epsilon
    0.5
    >>> counts.to_frame().round()
            count  std_error  lower  upper
    sex
    Female  10990      315.0  10343  11677
    Male    21840      443.0  20920  22800
    """

    epsilon: float
    rate: float | Fraction

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if check_rate(self.rate) < _LEAST_RATE:
            raise ValueError(f"rate must be at least {_LEAST_RATE:g}, got {float(self.rate):g}")
        if self.given_sample > _MOST_EPSILON:
            raise ValueError(
                f"epsilon must be at most {_MOST_EPSILON:g} given the sample, got epsilon={self.epsilon} at "
                f"rate={self.rate}"
            )

    @property
    def given_sample(self) -> float:  # numpydoc ignore=RT01
        """The epsilon of the noise, which holds for the records of the sample."""
        wanted, rate = check_epsilon(self.epsilon), check_rate(self.rate)
        if rate == 1 or wanted > _MOST_EPSILON:
            return -round_up(-wanted)
        if wanted / rate < _SMALL:  # e**x - 1 is at most x e**x, and at least x
            return -round_up(-max(wanted, wanted / rate * Fraction(1 - 4 * _SMALL)))
        allowed = max(exp_bounds(wanted)[0] - 1, wanted) / rate
        found = math.log1p(float(allowed)) * (1 - 2.0**-48)
        while exp_bounds(found)[1] - 1 > allowed:
            found *= 1 - 2.0**-44
        return found
