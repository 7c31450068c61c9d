"""Holdout of a search or selector: check of the parameter ``holdout``, and a new holdout."""

import numbers

import numpy as np
from sklearn.utils import check_random_state

from sklearn_bdp.correlation.components import Groups
from sklearn_bdp.correlation.declaration import check_declared
from sklearn_bdp.diagnostics.scores import warn_too_few_groups
from sklearn_bdp.holdout.config import HoldoutConfig, is_splitter
from sklearn_bdp.holdout.reusable import ReusableHoldout
from sklearn_bdp.ledger.ledger import SystemNote
from sklearn_bdp.release.context import HoldoutContext
from sklearn_bdp.release.overlap_check import check_overlap
from sklearn_bdp.release.query_batch import described_targets
from sklearn_bdp.utils.sklearn_compat import inside_validation, num_samples, safe_indexing
from sklearn_bdp.utils.validation import check_fraction

_N_DRY_RUN_RECORDS = 32  # training records for the dry run of a report


def config_of(meta_estimator):
    """Return the :class:`HoldoutConfig` of the parameter ``holdout``; None for a ReusableHoldout.

    A number or splitter becomes a HoldoutConfig. ``meta_estimator``: estimator with the parameter
    ``holdout``. Raises TypeError for None and other types, and ValueError for a number that is not
    between 0 and 1.
    """
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
    """Check the parameters ``holdout`` and ``correlation``; return a HoldoutConfig or None.

    The result is None if ``holdout`` is a ReusableHoldout. ``X_val``: argument of ``fit``, or None.
    Raises an error for invalid parameters, for ``X_val`` beside a ReusableHoldout, or if
    cross-validation fits an estimator with a ledger.
    """
    check_declared(meta_estimator.correlation)
    config = config_of(meta_estimator)
    if config is None and X_val is not None:
        raise ValueError("Give either holdout=ReusableHoldout(...) or X_val, not both.")
    if config is not None and config.ledger is not None and inside_validation():
        raise ValueError(
            f"ledger={str(config.ledger)!r} records one holdout, and cross-validation fits "
            f"{type(meta_estimator).__name__} with another holdout in each fold. Drop the ledger "
            "inside cross_val_score, or fit once and use final_report. The holdout was not queried."
        )
    return config


def open_holdout(meta_estimator, holdout_split, *, metric=None, fit_params=None):
    """Return the ReusableHoldout that was passed, or a new one with the held-out records.

    Parameters
    ----------
    meta_estimator : estimator
        Estimator with the parameters ``holdout`` and ``random_state``.
    holdout_split : HoldoutSplit
        Training set and holdout.
    metric : BoundedMetric or None, default=None
        Metric to verify. If it is not None, a holdout with too few groups may give a warning.
    fit_params : dict, default=None
        Arguments of the estimator's ``fit`` by name, which may contain records, too.

    Raises
    ------
    SharedRecordsError, ValueError
        If ``check_overlap`` finds training records that make the holdout invalid.
    """
    last_row = num_samples(holdout_split.X) - 1
    sample_rows = np.linspace(0, last_row, _N_DRY_RUN_RECORDS).astype(int)  # positions
    sample_y = None
    if holdout_split.y is not None:
        sample_y = safe_indexing(holdout_split.y, sample_rows)
    dry_run_sample = safe_indexing(holdout_split.X, sample_rows), sample_y
    if holdout_split.config is None:
        holdout = meta_estimator.holdout
        holdout.update_context(dry_run_sample=dry_run_sample)
    else:
        context = HoldoutContext(
            past_records=holdout_split.past_records,
            dry_run_sample=dry_run_sample,
            both_parts_given=True,
            node_matching=holdout_split.node_matching,
        )
        holdout = ReusableHoldout.from_config(
            holdout_split.config,
            holdout_split.X_holdout,
            holdout_split.y_holdout,
            correlation=holdout_split.model,
            gap=holdout_split.gap,
            random_state=_noise_seed(meta_estimator.random_state),
            notes=_split_notes(holdout_split),
            context=context,
        )
    training_data = holdout_split.training_data
    if holdout_split.train is not None:
        holdout.account.training_rows.add(training_data, drawn=True)
    # Raises if, for example, training records are in the holdout.
    assumption = check_overlap(holdout, training_data.with_tables_of(fit_params or {}))
    if assumption and assumption not in holdout.notes(SystemNote.ASSUMPTION):
        holdout.add_note(SystemNote.ASSUMPTION, assumption)
    if metric is not None:
        warn_too_few_groups(holdout)
    return holdout


def _noise_seed(random_state):
    """Return the seed of a new holdout's noise: an integer, or None for cryptographic noise."""
    if random_state is None or isinstance(random_state, numbers.Integral):
        return random_state
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def _split_notes(holdout_split):
    """Return the notes of a new ledger about the split: non-empty content by SystemNote."""
    # A split leaves groups whole, so their sizes are those before the split. If the caller passed
    # the holdout records, only groups of the training set count.
    models = [holdout_split.train_model]
    if holdout_split.train is not None:
        models.append(holdout_split.model)
    largest_sizes = [int(model.sizes_.max()) for model in models if isinstance(model, Groups)]
    notes = {
        SystemNote.SPLIT: holdout_split.split_note,
        SystemNote.ASSUMPTION: holdout_split.assumption,
        SystemNote.TARGETS: holdout_split.targets_digest,
        SystemNote.TRAINING_TARGETS: described_targets(holdout_split.y),
        SystemNote.LARGEST_GROUP: max(largest_sizes, default=None),
        SystemNote.STRATIFIED: holdout_split.stratified,
    }
    return {name: content for name, content in notes.items() if content}
