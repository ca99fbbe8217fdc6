"""What is warned of besides what is read from private data."""


class WeakGuaranteeWarning(UserWarning):
    """Warning that a guarantee promises little: its epsilon is above 10, or its delta is not below 1 / n.

    Examples
    --------
    >>> import warnings
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.privacy import WeakGuaranteeWarning
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     encoder = RandomizedResponseEncoder(12.0, categories=[["f", "m"]]).fit([["f"], ["m"]])
    >>> [warning.category is WeakGuaranteeWarning for warning in caught]
    [True]
    >>> print(caught[0].message)
    epsilon = 12 is above 10, which protects little: a report of 'x0' is the truth with a probability of 1 - 6.1e-06
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", WeakGuaranteeWarning)
    ...     encoder = RandomizedResponseEncoder(12.0, categories=[["f", "m"]]).fit([["f"], ["m"]])
    """
