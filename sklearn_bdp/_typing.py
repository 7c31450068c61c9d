"""Type aliases for annotations."""

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
FloatOrArray: TypeAlias = float | NDArray[Any]
#: ``correlation`` arguments: None, a word, an array, a sparse array, a graph, a model, or a list.
Correlation: TypeAlias = Any
#: Seeds of noise, for `numpy.random.default_rng`.
Seed: TypeAlias = int | np.random.Generator | None
#: ``random_state`` arguments, as in scikit-learn.
RandomState: TypeAlias = int | np.random.RandomState | None
#: Type of a method that a decorator returns with the same signature.
Method = TypeVar("Method", bound=Any)
