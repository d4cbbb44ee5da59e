"""Types of arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Positions = npt.NDArray[np.int64]
