"""What every calibration answers: which Bayesian DP level follows from a DP level."""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from sklearn_bdp._bisection import safe_inverse
from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._components import ComponentModel
from sklearn_bdp.correlation._declared import WorstOf
from sklearn_bdp.correlation._network import AnyStrength


class Calibration:
    """Leakage of one model's records; DP levels are positive, arguments are checked.

    The methods mean what those of the same name of :class:`CorrelationModel` mean;
    ``leakage(dp_epsilon, n, method)`` is the BDP level that follows from a positive DP level.
    """

    def __init__(self, model):
        self.model = model

    def check_method(self, n, method):
        """Raise ValueError when ``method`` does not apply."""
        if method == "spectral":
            raise ValueError(
                "method='spectral' needs a transition matrix (MarkovChain); "
                f"{type(self.model).__name__} has none. Use method='tight'."
            )

    def inverse(self, bdp_epsilon, n, method):
        """Return a DP level that suffices, or 0."""
        return safe_inverse(lambda x: self.model.bdp_epsilon(x, n, method=method), bdp_epsilon)

    # Theory B1, G1, G6 for one component of all records: true of any model.

    def leakage(self, dp_epsilon, n, method):
        """Return the BDP level that follows from a positive DP level."""
        return n * dp_epsilon

    def sequential_information(self, dp_epsilon, n):
        """Return ``K`` of theory G1."""
        return (n * dp_epsilon) ** 2 / 8.0

    def posterior_bias(self, dp_epsilon, n):
        """Return ``r`` of theory G6."""
        return float(np.tanh(n * dp_epsilon / 4.0))


@singledispatch
def calibrate(model: CorrelationModel) -> Calibration:
    """Return the calibration of a correlation model.

    Of a class that nothing is registered for, all records may follow one another.

    Parameters
    ----------
    model : CorrelationModel
        Any model.

    Returns
    -------
    Calibration
        Its bounds on leakage.
    """
    return Calibration(model)


@calibrate.register(AnyStrength)
@calibrate.register(ComponentModel)
class ComponentCalibration(Calibration):
    """Records that may follow each other inside components (theory B0, B1)."""

    def check_method(self, n, method):
        super().check_method(n, method)
        if method == "blanket" and self.model.largest_component(n) > 1:
            raise ValueError(
                "method='blanket' needs the strength of the dependence (MarkovNetwork or "
                f"BayesianNetwork); {self.model!r} knows structure only, so the "
                "influence of a neighbor may be infinite. Use method='tight'."
            )

    def leakage(self, dp_epsilon, n, method):
        # Theory B1 (B2 with the empty quilt): the whole component may follow the record.
        return self.model.largest_component(n) * dp_epsilon

    def sequential_information(self, dp_epsilon, n):
        # Theory G1: smaller blocks only add terms, since a part may still decide the rest.
        sizes, counts = self.model._sizes(n)
        return float(np.sum(counts * sizes.astype(float) ** 2)) * dp_epsilon**2 / 8.0

    def posterior_bias(self, dp_epsilon, n):
        sizes, counts = self.model._sizes(n)
        return float(np.sum(counts * sizes * np.tanh(sizes * dp_epsilon / 4.0)) / n)  # theory G6


@calibrate.register(WorstOf)
class WorstCalibration(Calibration):
    """A list of models: the worst of them (Song, Wang, Chaudhuri 2017: the class Theta)."""

    def check_method(self, n, method):
        for model in self.model.models:
            calibrate(model).check_method(n, method)

    def leakage(self, dp_epsilon, n, method):
        return max(m.bdp_epsilon(dp_epsilon, n, method=method) for m in self.model.models)

    def sequential_information(self, dp_epsilon, n):
        return max(m.sequential_information(dp_epsilon, n) for m in self.model.models)

    def posterior_bias(self, dp_epsilon, n):
        return max(m.posterior_bias(dp_epsilon, n) for m in self.model.models)

    def inverse(self, bdp_epsilon, n, method):
        return min(m.dp_epsilon(bdp_epsilon, n, method=method) for m in self.model.models)
