"""Names of types that annotations share."""

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
FloatOrArray: TypeAlias = float | NDArray[Any]
#: Arguments of ``check_correlation``: None, arrays, sparse arrays, graphs, models, lists, words.
Correlation: TypeAlias = Any
#: Seeds the noise, drawn by numpy's newer generators.
Seed: TypeAlias = int | np.random.Generator | None
#: Seeds of scikit-learn's random numbers.
RandomState: TypeAlias = int | np.random.RandomState | None
#: A decorated method keeps its signature.
Method = TypeVar("Method", bound=Any)
