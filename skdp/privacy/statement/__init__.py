"""The guarantee of a pipeline, column by column."""

from skdp.privacy.statement._statement import PrivacyStatement, privacy_statement

__all__ = ["PrivacyStatement", "privacy_statement"]
