"""The last step where all records choose: the last word of the holdout, then a choice anew.

Features that were chosen on a part of the records are worse than those that are chosen on all of
them, whoever chooses. A holdout that is not needed any more may join the training records, after
its last word: what follows is a refit, of which the verified score speaks only as far as the way
of choosing is the same.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace

import numpy as np

from sklearn_bdp._evaluation import Assessment, Candidate, fit_candidate
from sklearn_bdp._sklearn_compat import num_samples, safe_indexing
from sklearn_bdp.correlation import check_correlation
from sklearn_bdp.exceptions import BudgetExhaustedError
from sklearn_bdp.feature_selection._verified_path import Entry, choose, rule
from sklearn_bdp.holdout import ReusableHoldout


def chooses_anew(selector, X_val):
    """Return whether all records are to choose; raise where they may not but were asked to.

    The holdout must be the selector's own to use up. A ``tol`` other than ``"auto"`` is a rule
    about verified scores: left to itself, a selector then hands on what these select.
    """
    if selector.choose_on == "auto":
        own = not (_shared(selector, X_val) or selector.ledger)
        return own and selector.direction == "path" and selector.tol == "auto"
    if selector.choose_on == "all":
        _check_alone(selector, X_val)
    return selector.choose_on == "all"


def _shared(selector, X_val):
    return isinstance(selector.holdout, ReusableHoldout) or X_val is not None


def _check_alone(selector, X_val):
    """Raise where the holdout is not the selector's own to use up."""
    if _shared(selector, X_val) or selector.ledger:
        given = "X_val" if X_val is not None else "holdout" if not selector.ledger else "ledger"
        raise ValueError(
            "choose_on='all' takes the holdout into the training records after its last word, so "
            "it must be one that is made here and that nobody else asks: holdout= a fraction or a "
            f"splitter, no X_val, no ledger; got {given}=."
        )
    if selector.direction != "path":
        raise ValueError(
            f"choose_on='all' needs direction='path', got direction={selector.direction!r}."
        )


def joined(selector, division, X, y, groups):
    """Return the division in which all records train, once the holdout has spoken; None if none.

    Records of one chain or network cannot change sides.
    """
    if not division.model.is_componentwise:
        if selector.choose_on == "auto":
            return None
        raise ValueError(
            "choose_on='all' is for independent records and for groups, got correlation: "
            f"{division.model.describe()}. Use choose_on='training'."
        )
    plain = division.model.is_independent
    model = None if plain else check_correlation(selector.correlation, groups=groups)
    return replace(division, X=X, y=y, train_model=model)


def last_word(holdout, entry, model, metric):
    """Return the entry with the last word on its score, if that is finer; the holdout is closed."""
    found = entry.assessment
    fitted = OfColumns(model, found.columns)
    with contextlib.suppress(BudgetExhaustedError):  # no budget: closed in its own way
        said = holdout.final_report(fitted, metric.from_unit(found.training), scoring=metric)
        value, lower, upper = map(metric.to_unit, (said.value, said.lower, said.upper))
        if upper - lower >= found.upper - found.lower:  # no finer: noise on top of what is known
            return entry
        # Both intervals hold.
        lower, upper = max(lower, found.lower), min(upper, found.upper)
        released = min(max(value, lower), upper)
        found = replace(found, released=released, lower=lower, upper=upper, source="holdout")
    return replace(entry, assessment=found)


def choose_anew(setting, proposals, *, tol, target):
    """Return the proposal that is taken where training-side scores are all there is."""
    entries = [Entry(one, Assessment(one.columns, one.training, one.training)) for one in proposals]
    others = [entry for entry in entries if entry.proposal.ranking != "constant"]
    place = choose(others, **rule(setting, tol, target)).selected
    return None if place is None else others[place].proposal


def fit_anew(setting, proposal):
    """Return the estimator fitted on all records, on the columns that these chose."""
    return fit_candidate(setting, Candidate(columns=proposal.columns))


@dataclass(frozen=True)
class OfColumns:
    """A fitted model of some columns, as a model of all of them."""

    model: object = field(repr=False)
    columns: tuple = field(repr=False)

    def __getattr__(self, name):
        found = getattr(object.__getattribute__(self, "model"), name)
        if name in ("feature_names_in_", "n_features_in_"):
            raise AttributeError(name)
        return self._sliced(found) if name in _METHODS else found

    def _sliced(self, method):
        columns = np.asarray(self.columns, dtype=int)

        def call(X, *args, **params):
            part = safe_indexing(X, columns, axis=1) if columns.size else _blank(X)
            return method(part, *args, **params)

        return call


_METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "score")


def _blank(X):
    return np.zeros((num_samples(X), 1))
