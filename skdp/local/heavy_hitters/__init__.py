"""The frequent words of an open vocabulary."""

from skdp.local.heavy_hitters._heavy_hitters import HeavyHitters as HeavyHitters
