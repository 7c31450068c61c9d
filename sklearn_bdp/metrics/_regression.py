"""Per-record scores of regressors, clipped at a declared error."""

import dataclasses
from typing import ClassVar

import numpy as np

from sklearn_bdp.metrics._clipping import ClippedMetric
from sklearn_bdp.metrics._rows import respond


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClippedError(ClippedMetric):
    r"""Minus the absolute or squared error, no record counting more than a declared cap.

    With the cap ``width`` on the absolute error, the score is
    :math:`-\min(|y - \hat y|, width)^p \in [-width^p, 0]`, ``p`` the power; several outputs, each
    with its own cap, are averaged. It equals scikit-learn's wherever no error exceeds the cap.
    """

    power: int = 1
    width: float | tuple = 1.0

    _multioutput: ClassVar[bool] = True

    @property
    def limit(self):
        return "errors of " + ", ".join(f"{part:.4g}" for part in self._cap)

    @property
    def remedy(self):
        return (
            f"scoring=get_metric({self.name!r}, bounds=(low, high)), with the range that targets "
            "and predictions can have, moves the limit (intervals widen with it)"
        )

    @property
    def _cap(self):
        return np.atleast_1d(np.asarray(self.width, dtype=float))

    def _cut(self, per_record):
        return np.size(self.width) > 1 or super()._cut(per_record)

    def _unit(self, raw, clipped):
        cap = self._cap
        error = np.minimum(np.abs(raw), cap) if clipped else np.abs(raw)
        return 1.0 - (error**self.power).mean(axis=1) / (cap**self.power).mean()

    def _raw(self, estimator, X, y):
        """Return ``y - prediction``, one column for each output."""
        n_outputs = np.size(self.width)
        prediction = respond(estimator, X, self._methods).astype(float)
        prediction = prediction.reshape(len(prediction), -1)
        target = y.astype(float).reshape(len(y), -1)
        if prediction.shape != target.shape or n_outputs not in (1, target.shape[1]):
            raise ValueError("predict must give one number per record and output.")
        return target - prediction

    def _check(self, estimator, X, y):
        y = super()._check(estimator, X, y)
        n_outputs, given = np.size(self.width), 1 if y.ndim == 1 else y.shape[1]
        if n_outputs not in (1, given):
            raise ValueError(
                f"{self.name} has bounds for {n_outputs} output(s), got targets of {given}."
            )
        return y


@dataclasses.dataclass(frozen=True, kw_only=True)
class PinballLoss(ClippedError):
    r"""Minus the pinball loss of a quantile, no error counting more than a declared cap.

    The score is :math:`-\alpha e` for :math:`e = \min(y - \hat y, width) \ge 0` and
    :math:`(1 - \alpha) e` for :math:`e = \max(y - \hat y, -width) < 0`, averaged over outputs.
    """

    alpha: float = 0.5

    def _cut(self, per_record):
        return True  # the cheaper side of the loss is clipped before its score is the worst

    def _unit(self, raw, clipped):
        cap = self._cap
        error = np.clip(raw, -cap, cap) if clipped else raw
        loss = np.maximum(self.alpha * error, (self.alpha - 1.0) * error)
        return 1.0 - loss.mean(axis=1) / (max(self.alpha, 1.0 - self.alpha) * cap.mean())
