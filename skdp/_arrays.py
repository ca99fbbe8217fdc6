"""Names of the array types in annotations, one for each type."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
# Integer codes of declared values, in the smallest type that holds them.
Codes = NDArray[np.integer]
