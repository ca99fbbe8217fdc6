"""What a pipeline will cost, before it sees any data."""

from skdp.evaluation.cost._cost import PrivacyCost, privacy_cost

__all__ = ["PrivacyCost", "privacy_cost"]
