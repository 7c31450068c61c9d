"""What a fitted search or selector shows and gives away without holdout records."""

from __future__ import annotations

import contextlib
import copy
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sklearn_bdp._evaluation._candidates import Candidate, cross_validated
from sklearn_bdp._evaluation._division import config_of
from sklearn_bdp.accounting import Certificate
from sklearn_bdp.holdout import History, ReusableHoldout, report_and_close


def clipping_of(setting, columns):
    """Return what clipping changes on the folds for a model of some columns; None where none is.

    Nothing is fitted for a metric that does not clip.
    """
    if not setting.metric.caveat or not len(columns):
        return None
    with warnings.catch_warnings(), contextlib.suppress(Exception):  # told when it was scored
        warnings.simplefilter("ignore")
        return cross_validated(setting, Candidate(columns=tuple(map(int, columns))))[1]
    return None


def report_chosen(holdout, models, values, metric, variance, *, scoring, **asked):
    """Report what a search or a selection verified by ``metric``, and close the holdout.

    ``values``: cross-validated scores of the models, and ``variance`` of a record's.
    """
    wanted = scoring if isinstance(scoring, list | tuple) else [scoring]
    wanted = [metric if one in (None, metric.name) else one for one in wanted]
    own = bool(wanted) and wanted[0] is metric
    return report_and_close(
        holdout,
        models,
        values if own and np.isfinite(values).all() else None,
        scoring=wanted,
        variance=variance if own else None,
        **asked,
    )


@dataclass(frozen=True)
class DetachedHoldout:
    """What a holdout has released, without its records; it can be read and not be asked.

    Parameters
    ----------
    n : int
        Number of records.
    beta : float
        Probability that any of the intervals is wrong.
    information_spent : float
        Nats.
    remaining_budget : int or None
        "Above" answers that were left.
    """

    n: int
    beta: float
    information_spent: float
    remaining_budget: int | None
    _certificate: Certificate = field(repr=False)
    _records: History = field(repr=False)

    def certificate(self):
        """Return the guarantee as it stood.

        Returns
        -------
        Certificate
            As :meth:`ReusableHoldout.certificate <sklearn_bdp.ReusableHoldout.certificate>`.
        """
        return self._certificate

    def history(self):
        """Return everything that had been released, oldest first.

        Returns
        -------
        History
            A sequence of :class:`~sklearn_bdp.holdout.AnswerRecord`.
        """
        return self._records


class Savable:
    """Mixin of estimators with a parameter ``holdout`` and, once fitted, a ``holdout_``."""

    holdout: Any

    def set_params(self, **params: Any) -> Any:
        """Set parameters; ``holdout__<name>`` sets a field of the configuration of the holdout.

        Parameters
        ----------
        **params : dict
            Parameters of the estimator. For fields, ``holdout`` is replaced by a changed copy; a
            fraction becomes a :class:`~sklearn_bdp.HoldoutConfig` first.

        Returns
        -------
        object
            The estimator itself.
        """
        start = "holdout__"
        own = {name: params.pop(name) for name in list(params) if name.startswith(start)}
        super().set_params(**params)  # type: ignore[misc] # of BaseEstimator, which is untyped
        if own:
            config = None if self.holdout is None else config_of(self)
            if config is None:
                raise ValueError(
                    f"{min(own)} cannot be set: holdout={self.holdout!r:.60} has no configuration. "
                    "Set holdout= to a fraction or a HoldoutConfig first."
                )
            own = {name.removeprefix(start): value for name, value in own.items()}
            self.holdout = config.set_params(**own)
        return self

    def without_holdout(self) -> Any:
        """Return a copy of the fitted object that carries no holdout record.

        A fitted search carries its holdout, so that the next search can go on with it: whoever
        gets the pickle gets the records. The copy predicts and shows everything that was released
        (``cv_results_``, ``certificate_``, ``holdout_.history()``); it cannot ask, and fitting
        it again needs ``set_params(holdout=...)``.

        Returns
        -------
        object
            A copy with a ``holdout_`` that can be read and not be asked.
        """
        if not isinstance(getattr(self, "holdout_", None), ReusableHoldout):
            raise ValueError(
                f"without_holdout needs a fitted {type(self).__name__} with a holdout, got one "
                "that has none."
            )
        twin: Any = copy.copy(self)
        held = twin.holdout_
        twin.holdout_ = DetachedHoldout(
            held.n, held.beta, held.information_spent, held.remaining_budget,
            held.certificate(), held.history(),
        )  # fmt: skip
        if isinstance(twin.holdout, ReusableHoldout):
            twin.holdout = twin.holdout_
        vars(twin).pop("_unfinished", None)
        return twin

    # A notebook shows score and interval above scikit-learn's diagram.

    def _card(self):
        certificate = getattr(self, "certificate_", None)
        return "" if certificate is None else certificate._repr_html_()

    def _repr_html_inner(self):
        return self._card() + super()._repr_html_inner()

    def _repr_mimebundle_(self, **kwargs):
        shown = super()._repr_mimebundle_(**kwargs)
        return {k: self._card() + v if k == "text/html" else v for k, v in shown.items()}
