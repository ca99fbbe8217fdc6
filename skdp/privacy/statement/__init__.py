"""The guarantee of a pipeline, column by column."""

from skdp.privacy.statement._facts import StatedStep as StatedStep
from skdp.privacy.statement._result import PrivacyStatement
from skdp.privacy.statement._statement import privacy_statement

__all__ = ["PrivacyStatement", "privacy_statement"]
