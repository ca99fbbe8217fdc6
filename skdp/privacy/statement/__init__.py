"""The guarantee of a pipeline, column by column."""

from skdp.privacy.statement._result import PrivacyStatement
from skdp.privacy.statement._statement import privacy_statement
from skdp.privacy.statement._walk import Fact as Fact

__all__ = ["PrivacyStatement", "privacy_statement"]
