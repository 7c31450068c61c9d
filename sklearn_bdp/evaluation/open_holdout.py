"""The holdout of a meta-estimator: its parameter, and the holdout that a split opens."""

import numbers

import numpy as np
from sklearn.utils import check_random_state

from sklearn_bdp.correlation.components import Groups
from sklearn_bdp.correlation.declaration import check_declared
from sklearn_bdp.diagnostics.scores import warn_too_few_groups
from sklearn_bdp.holdout.config import HoldoutConfig, is_splitter
from sklearn_bdp.holdout.reusable import ReusableHoldout
from sklearn_bdp.ledger.ledger import Fact
from sklearn_bdp.release.context import HoldoutContext
from sklearn_bdp.release.overlap_check import check_overlap
from sklearn_bdp.release.query_batch import described_targets
from sklearn_bdp.utils.sklearn_compat import inside_validation, num_samples, safe_indexing
from sklearn_bdp.utils.validation import check_fraction

_N_DRY_RUN_RECORDS = 32  # training records for the dry run of a report


def config_of(meta_estimator):
    """Return the :class:`HoldoutConfig` of ``holdout=``; None for an open holdout."""
    holdout = meta_estimator.holdout
    if isinstance(holdout, ReusableHoldout | HoldoutConfig):
        return holdout if isinstance(holdout, HoldoutConfig) else None
    if isinstance(holdout, bool) or not (isinstance(holdout, numbers.Real) or is_splitter(holdout)):
        raise TypeError(
            "holdout must be a fraction of the records, a HoldoutConfig, a splitter, a "
            f"ReusableHoldout or None, got {type(holdout).__name__}. To keep a ledger file, pass "
            "HoldoutConfig(ledger=path). To bring your own holdout records, pass X_val and y_val "
            "to fit."
        )
    if isinstance(holdout, numbers.Real):
        check_fraction("holdout", holdout)
    return HoldoutConfig(holdout)


def check_holdout_parameter(meta_estimator, X_val):
    """Check ``holdout=`` before any work; return its :class:`HoldoutConfig` or None."""
    check_declared(meta_estimator.correlation)
    config = config_of(meta_estimator)
    if config is None and X_val is not None:
        raise ValueError("Give either holdout=ReusableHoldout(...) or X_val, not both.")
    if config is not None and config.ledger is not None and inside_validation():
        raise ValueError(
            f"ledger={str(config.ledger)!r} records one holdout, and cross-validation fits "
            f"{type(meta_estimator).__name__} with another holdout in each fold. Drop the ledger "
            "inside cross_val_score, or fit once and use final_report. Nothing was asked."
        )
    return config


def open_holdout(meta_estimator, split, *, metric=None, fit_params=None):
    """Return the holdout that was passed, or a new one of the held out records.

    Parameters
    ----------
    meta_estimator : estimator
        Estimator with the parameters ``holdout`` and ``random_state``.
    split : HoldoutSplit
        Training set and holdout.
    metric : object, default=None
        Metric to verify; a warning is given if there are too few groups for it.
    fit_params : dict, default=None
        Further parameters of ``fit``, which may hold records, too.
    """
    rows = np.linspace(0, num_samples(split.X) - 1, _N_DRY_RUN_RECORDS).astype(int)
    y = None if split.y is None else safe_indexing(split.y, rows)
    dry_run_sample = safe_indexing(split.X, rows), y
    if split.config is None:
        holdout = meta_estimator.holdout
        holdout.update_context(dry_run_sample=dry_run_sample)
    else:
        context = HoldoutContext(
            past_records=split.past_records,
            dry_run_sample=dry_run_sample,
            both_parts_given=True,
            node_matching=split.node_matching,
        )
        holdout = ReusableHoldout.from_config(
            split.config,
            split.X_holdout,
            split.y_holdout,
            correlation=split.model,
            gap=split.gap,
            random_state=_seed_of_noise(meta_estimator.random_state),
            notes=_notes(split),
            context=context,
        )
    if split.train is not None:
        holdout.account.training_rows.add(split.training_data, drawn=True)
    assumption = check_overlap(holdout, split.training_data.with_tables_of(fit_params or {}))
    if assumption and assumption not in holdout.notes(Fact.ASSUMPTION):
        holdout.add_note(Fact.ASSUMPTION, assumption)
    if metric is not None:
        warn_too_few_groups(holdout)
    return holdout


def _seed_of_noise(random_state):
    """Return the seed of a new holdout's noise, an integer or None."""
    if random_state is None or isinstance(random_state, numbers.Integral):
        return random_state
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def _notes(split):
    """Return the notes of a new ledger on the split, without empty ones."""
    # Sizes of groups before the split, or of the training set if it was not split here.
    models = [split.train_model, None if split.train is None else split.model]
    sizes = [int(model.sizes_.max()) for model in models if isinstance(model, Groups)]
    notes = {
        Fact.SPLIT: split.split_note,
        Fact.ASSUMPTION: split.assumption,
        Fact.TARGETS: split.targets_digest,
        Fact.TRAINING_TARGETS: described_targets(split.y),
        Fact.LARGEST_GROUP: max(sizes, default=None),
        Fact.STRATIFIED: split.stratified,
    }
    return {fact: value for fact, value in notes.items() if value}
