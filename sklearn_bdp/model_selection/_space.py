"""Parameter spaces as random search takes them, scikit-optimize's dimensions included."""

_PRIORS = ("uniform", "log-uniform", "normal", "loguniform")


class _Dimension:
    """A dimension of scikit-optimize as a distribution of scipy."""

    def __init__(self, dimension):
        self.dimension = dimension

    def rvs(self, random_state=None):
        """Return one value."""
        return self.dimension.rvs(n_samples=1, random_state=random_state)[0]


def sampling_space(space):
    """Return a space that :class:`~sklearn.model_selection.ParameterSampler` understands."""
    if isinstance(space, list | tuple):
        return [sampling_space(part) for part in space]
    if not isinstance(space, dict):
        return space  # scikit-learn says what is wrong with it
    return {name: _values(name, values) for name, values in space.items()}


def _values(name, values):
    """Return the values of one parameter, or their distribution."""
    if isinstance(values, tuple) and len(values) > 2 and str(values[-1]) in _PRIORS:
        raise ValueError(
            f"param_grid must hold lists or distributions, got {name}={values!r}: write "
            "scipy.stats.loguniform(low, high), scipy.stats.uniform(low, high - low), or "
            "skopt.space.Real(low, high, prior='log-uniform')."
        )
    is_dimension = hasattr(values, "rvs") and hasattr(values, "transformed_bounds")
    return _Dimension(values) if is_dimension else values
