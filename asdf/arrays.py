"""Array types for annotations, named by the values that they hold."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
AnyIntegers = npt.NDArray[np.integer]
Indices = npt.NDArray[np.intp]
Labels = npt.NDArray[np.int8]
