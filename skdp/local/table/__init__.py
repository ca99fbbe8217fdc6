"""One encoder for a table of columns of any kind."""

from skdp.local.table._encoder import LocalTableEncoder
from skdp.local.table._recommend import recommend_plan

__all__ = ["LocalTableEncoder", "recommend_plan"]
