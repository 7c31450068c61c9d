"""What a search does before the holdout is asked: check, divide, open, set up the evaluation."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace

import numpy as np
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import has_fit_parameter

from sklearn_bdp._checks import caller_level
from sklearn_bdp._digests import object_digest, training_digest
from sklearn_bdp._evaluation import (
    MetricScorer,
    Pilot,
    Progress,
    Rounds,
    Setting,
    Verifier,
    check_owner,
    check_proved,
    config_of,
    divide_for,
    further_metrics,
    inner_folds,
    open_holdout,
    recorded_seed,
    verified_metric,
)
from sklearn_bdp._sklearn_compat import (
    check_method_params,
    num_samples,
    root_context,
)
from sklearn_bdp.exceptions import UnboundedMetricError, UnweightedScoreWarning
from sklearn_bdp.guards import check_agreement, check_orders
from sklearn_bdp.holdout import HoldoutConfig


class Preparation:
    """The part of a search that comes before its first query.

    Nothing here sees a holdout score: what can go wrong goes wrong while nothing is spent.
    """

    def _check_options(self, X_val):
        """Check what can be checked before any work."""
        if self.training_score == "resubstitution":
            if isinstance(self.refit, str) and self.refit == "one_se":
                raise ValueError(
                    "refit='one_se' needs the standard errors of training_score='cv', got "
                    "training_score='resubstitution'."
                )
            if self.verify != "all":
                raise ValueError(
                    "verify must be 'all' with training_score='resubstitution', where the "
                    f"training-side score comes with the fit, got verify={self.verify!r}."
                )
        for candidate in filter(None, self._one_of_each()):  # the empty one sets nothing
            clone(self.estimator).set_params(**clone(candidate, safe=False))
        check_owner(self, X_val)
        if X_val is not None and has_fit_parameter(self.estimator, "X_val"):
            raise ValueError(
                f"X_val is ambiguous: {type(self.estimator).__name__}.fit has a parameter of this "
                "name, and the search makes it the holdout. Pass the holdout records as "
                "holdout=ReusableHoldout(X_val, y_val). Nothing was fitted."
            )

    def _one_of_each(self):
        """Yield a candidate of each grid, for its names."""
        if self.n_iter is None:
            for grid in ParameterGrid(self.param_grid).param_grid:
                yield from itertools.islice(ParameterGrid(grid), 1)
            return
        space = sampling_space(self.param_grid)
        for grid in ParameterSampler(space, self.n_iter).param_distributions:
            yield from ParameterSampler(grid, 1, random_state=0)

    def _check_beside(self, X, y, X_val, y_val, groups, dates, params):
        """Check what comes beside the records: scikit-learn hands other lengths on as they are."""
        check_orders(self, X, y, X_val=X_val, y_val=y_val, groups=groups, **params)
        for name, values in (("groups", groups), ("sample_weight", params.get("sample_weight"))):
            if values is not None and num_samples(values) != num_samples(X):
                raise ValueError(
                    f"{name} must hold one value per record, got {num_samples(values)} for "
                    f"{num_samples(X)} records."
                )

    def _signature(self, data):
        """Return a digest of parameters and data, or None."""
        params = self.get_params(deep=False)
        for name in ("n_jobs", "pre_dispatch", "verbose"):
            params.pop(name)
        if isinstance(self.holdout, HoldoutConfig):  # a ledger that moved is the same search
            params["holdout"] = replace(self.holdout, ledger=None)
        return object_digest((params, training_digest(*data)))

    def _resumed(self, data):
        """Return what an interrupted run of the same search left behind, or a new start."""
        before, known = self.__dict__.pop("_unfinished", (None, None))
        if known is not None and known == self._signature(data):
            return before
        seed, split = recorded_seed(self, data)
        config = config_of(self)
        keep = config is not None and config.ledger is not None
        progress = Progress(seed=seed, signature=self._signature(data) if keep else None)
        progress.split = split
        return progress

    def _prepare(self, progress, X, y, X_val, y_val, groups, dates, params):
        """Divide the data and open the holdout, when nothing that can be checked is wrong."""
        division = progress.division
        if division is None:
            division = divide_for(
                self, self.estimator, X, y, X_val=X_val, y_val=y_val, groups=groups,
                split=progress.split, pilot=self._pilot(params, groups), dates=dates,
            )  # fmt: skip
        if division.train is not None:
            params = check_method_params(X, params, indices=division.train)
            groups = None if groups is None else np.asarray(groups)[division.train]
        name, metric = verified_metric(self, division.y)
        metric = metric.informed(division.y, division.train_groups())
        check_proved(metric, division.model)
        check_agreement(self.estimator, division)
        routed = self._routed(params, groups)
        whole = self.training_score == "resubstitution"
        if not whole:
            classifier = is_classifier(self.estimator)
            self._checked_cv_orig = inner_folds(self.cv, division, classifier=classifier)
            self.n_splits_ = self._checked_cv_orig.get_n_splits(
                division.X, division.y, **routed.splitter.split
            )
        else:
            self.n_splits_ = 1
        progress.division = division
        if progress.holdout is None:
            progress.holdout = open_holdout(
                self, division, split=progress.split, metric=metric, fit_params=routed.estimator.fit
            )
            progress.read()
        setting = Setting(
            estimator=clone(self.estimator), X=division.X, y=division.y,
            X_holdout=division.X_holdout, y_holdout=division.y_holdout, metric=metric,
            fit_params=routed.estimator.fit, error_score=self.error_score,
            resubstitution=whole,
            beside=further_metrics(self, name, division),
        )  # fmt: skip
        verifier = Verifier(
            setting, progress.holdout, n_jobs=self.n_jobs, pre_dispatch=self.pre_dispatch
        )
        context = self._root_context(division, params.get("sample_weight"))
        return Rounds(
            self, name, routed=routed, verifier=verifier, progress=progress, context=context
        )

    def _root_context(self, division, weight):
        """Return the context of scikit-learn's callbacks, if there are any."""
        if not getattr(self, "_skl_callbacks", None):
            return None
        metadata = None if weight is None else {"sample_weight": weight}
        return root_context(self, division.X, division.y, metadata, max_subtasks=2)

    def _pilot(self, params, groups):
        """Return what reads the strength of dependence off the training side, for "time"."""
        if not (isinstance(self.correlation, str) and self.correlation == "time"):
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # told when the training part is prepared
            routed = self._routed(params, groups)
        return Pilot(
            estimator=self.estimator,
            metric=self._quiet_metric,
            candidates=list(self._candidates()),
            fit_params=routed.estimator.fit,
            n_jobs=self.n_jobs,
        )

    def _quiet_metric(self, y):
        """Return the verified metric; what there is to note on it is noted later."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return verified_metric(self, y)[1]

    def _routed(self, params, groups):
        """Return what goes to the estimator's ``fit`` and to the splitter."""
        if sklearn.get_config()["enable_metadata_routing"]:
            if groups is not None and self.get_metadata_routing().consumes("fit", ["groups"]):
                params = {**params, "groups": groups}
            routed = process_routing(self, "fit", **params)
            if routed.scorer.score:
                raise UnboundedMetricError(
                    f"scoring asks for {sorted(routed.scorer.score)}: a weighted score has no "
                    "proved sensitivity. Let only fit request them."
                )
            return routed
        if params.get("sample_weight") is not None:
            warnings.warn(
                "sample_weight goes to fit; in scores, on the training side and on the holdout, "
                "each record counts once.",
                UnweightedScoreWarning,
                stacklevel=caller_level(),
            )
        return Bunch(estimator=Bunch(fit=params), splitter=Bunch(split={"groups": groups}))

    def _get_scorers(self):
        """Return scikit-learn's scorers; bounded metrics that it does not know need no routing."""
        try:
            return super()._get_scorers()
        except (TypeError, ValueError):
            if self.holdout is None:
                raise
            return MetricScorer(None), "score"


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
