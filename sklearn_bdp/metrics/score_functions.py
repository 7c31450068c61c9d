"""Score functions of scikit-learn: how they are computed, their ranges, and reasons for no bound.

To support another score function, add an entry to :data:`SCORE_FUNCTIONS`. A metric with a proven
bound is a class that is registered by :func:`sklearn_bdp.metrics.base.register_metric`.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import NamedTuple

#: Largest loss of a public range, as a multiple of the best candidate's loss or of a constant's.
WORST_LOSS = 4.0

#: Reasons why a metric that ranks candidates has no interval, as clauses for messages.
NO_TARGET = "it describes the sample at hand, not new records"
UNBOUNDED_LOG = "rare probabilities near 0 decide it"
TARGETS_NEAR_ZERO = "rare targets near 0 decide it"
UNKNOWN_SCORER = "its distribution is unknown"
_CLUSTERING = "it compares partitions of all records at once"

# Reasons why a score function has no proven bound, with alternatives, as clauses for messages (see
# ``doc/guide/metrics.md``).
_RANKS = "use 'roc_auc' (two classes), 'neg_brier_score' or 'neg_log_loss'"
_DIVIDES_BY_COUNT = (
    "it divides by a count that one record can change from 0 to 1. Instead, use "
    "'balanced_accuracy', 'accuracy' or 'neg_brier_score', or a PerRecordScore if you know "
    "what each error costs"
)
_NOT_PROVED = f"no bound is proved. Instead, {_RANKS}"
_AVERAGES_OF_RECALLS = (
    "averages of recalls weigh classes by counts that one record can change. Instead, use "
    "'balanced_accuracy', or get_metric('recall', pos_label=...) for one class"
)
_DIVIDES_BY_LOSS = f"it divides by a loss on the holdout's targets. Instead, {_RANKS}"
_UNBOUNDED_CHANGE = (
    "there is no bound on what one record can change. Instead, use 'neg_mean_absolute_error' or "
    "'neg_mean_squared_error' with bounds=(low, high), or a PerRecordScore"
)
_COMPARES_CLUSTERINGS = (
    "it compares clusterings of all records at once. Instead, use a PerRecordScore"
)


class ScoreForm(enum.Enum):
    """How a score is computed from records, which determines its approximate interval."""

    CONFUSION = "a function of the confusion matrix"
    RANKING = "a function of ranks"
    SQUARED_ERROR = "a mean squared error or its root"
    SQUARED_SKILL = "1 minus a ratio of mean squares"
    MEAN_LOSS = "a mean of losses, or its root"
    SKILL = "1 minus a ratio of mean losses that need no clip"
    MEDIAN_ERROR = "a median error"
    OTHER = "without an approximate interval"


#: Forms that are computed from squared errors, which are clipped.
SQUARED_FORMS = (ScoreForm.SQUARED_ERROR, ScoreForm.SQUARED_SKILL)


class PublicRange(NamedTuple):
    """Range of scores, in score units, that is mapped to [0, 1].

    ``is_open`` states whether scores may lie outside.
    """

    lower: float
    upper: float
    is_open: bool


#: Range of scores that are negative below chance.
SIGNED = PublicRange(-1.0, 1.0, is_open=False)
_SKILL = PublicRange(1.0 - WORST_LOSS, 1.0, is_open=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreFunction:
    """Facts about one score function.

    Parameters
    ----------
    form : ScoreForm, default=ScoreForm.OTHER
        How the score is computed.
    rejection : str, default=""
        Why scorers of the function have no proven bound, and alternatives. Empty if no name of a
        scorer needs it.
    public_range : PublicRange or None, default=None
        Range of the score. None: [0, 1] for bounded scores; for losses and other scores a range
        that follows from training targets.
    is_bounded : bool, default=True
        Whether [0, 1] is the range of a score, not a loss, without ``public_range``.
    is_reported : bool, default=False
        Whether the error about ``rejection`` mentions ``final_report``, which shows the metric.
    has_unbounded_logs : bool, default=False
        Whether losses with logarithms are clipped, because rare ones are large.
    no_interval : str, default="its distribution is unknown"
        Clause on why candidates have no interval if ``form`` is `ScoreForm.OTHER`.
    """

    form: ScoreForm = ScoreForm.OTHER
    rejection: str = ""
    public_range: PublicRange | None = None
    is_bounded: bool = True
    is_reported: bool = False
    has_unbounded_logs: bool = False
    no_interval: str = UNKNOWN_SCORER

    @property
    def averages_clipped_squares(self) -> bool:
        """Whether the score is computed from clipped squared errors."""
        return self.form in SQUARED_FORMS

    @property
    def is_classification(self) -> bool:
        """Whether the approximate interval of the score is that of a proportion."""
        return self.form in (ScoreForm.CONFUSION, ScoreForm.RANKING)

    @property
    def needs_one_output(self) -> bool:
        """Whether the interval of the score needs targets of one output."""
        return self.form is ScoreForm.MEDIAN_ERROR

    @property
    def is_tested_far(self) -> bool:
        """Whether limits were simulated down to a failure probability of 1e-4, not only 1e-3."""
        return self.form in (*SQUARED_FORMS, ScoreForm.CONFUSION)


#: Facts about a function without an entry.
UNKNOWN = ScoreFunction()


def _loss(form=ScoreForm.MEAN_LOSS, *, is_reported=False, has_unbounded_logs=False):
    """Return the entry of a loss of a regression without a proven bound."""
    return ScoreFunction(
        form=form,
        rejection=_UNBOUNDED_CHANGE,
        is_reported=is_reported,
        has_unbounded_logs=has_unbounded_logs,
    )


def _clustering(public_range=None, *, is_bounded=True):
    """Return the entry of a score that compares two clusterings."""
    return ScoreFunction(
        rejection=_COMPARES_CLUSTERINGS,
        public_range=public_range,
        is_bounded=is_bounded,
        no_interval=_CLUSTERING,
    )


#: The registry: facts by name of the function without ``_score`` at its end. Entries that are not
#: the name of a public function (``roc_auc_ovr``, likelihood ratios) only have a ``rejection``.
SCORE_FUNCTIONS: dict[str, ScoreFunction] = {
    # Classification, from predicted labels.
    "accuracy": ScoreFunction(form=ScoreForm.CONFUSION),
    "balanced_accuracy": ScoreFunction(form=ScoreForm.CONFUSION),
    "cohen_kappa": ScoreFunction(form=ScoreForm.CONFUSION, public_range=SIGNED),
    "f1": ScoreFunction(form=ScoreForm.CONFUSION, rejection=_DIVIDES_BY_COUNT, is_reported=True),
    "fbeta": ScoreFunction(form=ScoreForm.CONFUSION),
    "jaccard": ScoreFunction(form=ScoreForm.CONFUSION, rejection=_DIVIDES_BY_COUNT),
    "matthews_corrcoef": ScoreFunction(
        form=ScoreForm.CONFUSION, rejection=_DIVIDES_BY_COUNT, public_range=SIGNED
    ),
    "precision": ScoreFunction(
        form=ScoreForm.CONFUSION, rejection=_DIVIDES_BY_COUNT, is_reported=True
    ),
    "recall": ScoreFunction(form=ScoreForm.CONFUSION, rejection=_AVERAGES_OF_RECALLS),
    "positive_likelihood_ratio": ScoreFunction(rejection=_DIVIDES_BY_COUNT),
    "negative_likelihood_ratio": ScoreFunction(rejection=_DIVIDES_BY_COUNT),
    # Classification, from probabilities and scores.
    "average_precision": ScoreFunction(
        form=ScoreForm.RANKING, rejection=_NOT_PROVED, is_reported=True
    ),
    "roc_auc": ScoreFunction(form=ScoreForm.RANKING),
    "roc_auc_ovr": ScoreFunction(rejection=_NOT_PROVED),
    "roc_auc_ovo": ScoreFunction(rejection=_NOT_PROVED),
    "log_loss": ScoreFunction(no_interval=UNBOUNDED_LOG),
    "d2_brier": ScoreFunction(
        form=ScoreForm.SKILL, rejection=_DIVIDES_BY_LOSS, public_range=_SKILL
    ),
    "d2_log_loss": ScoreFunction(
        rejection=_DIVIDES_BY_LOSS, public_range=_SKILL, no_interval=UNBOUNDED_LOG
    ),
    # Regression.
    "r2": ScoreFunction(
        form=ScoreForm.SQUARED_SKILL,
        rejection=_UNBOUNDED_CHANGE,
        public_range=_SKILL,
        is_reported=True,
    ),
    "explained_variance": ScoreFunction(
        form=ScoreForm.SQUARED_SKILL,
        rejection=_UNBOUNDED_CHANGE,
        public_range=_SKILL,
        is_reported=True,
    ),
    "d2_absolute_error": ScoreFunction(
        form=ScoreForm.SKILL, rejection=_UNBOUNDED_CHANGE, public_range=_SKILL
    ),
    "mean_squared_error": ScoreFunction(form=ScoreForm.SQUARED_ERROR),
    "root_mean_squared_error": _loss(ScoreForm.SQUARED_ERROR, is_reported=True),
    "mean_absolute_error": ScoreFunction(form=ScoreForm.MEAN_LOSS),
    "mean_pinball_loss": ScoreFunction(form=ScoreForm.MEAN_LOSS),
    "mean_tweedie_deviance": ScoreFunction(form=ScoreForm.MEAN_LOSS),
    "mean_absolute_percentage_error": _loss(),
    "mean_gamma_deviance": _loss(has_unbounded_logs=True),
    "mean_poisson_deviance": _loss(),
    "mean_squared_log_error": _loss(has_unbounded_logs=True),
    "root_mean_squared_log_error": _loss(has_unbounded_logs=True),
    "median_absolute_error": _loss(ScoreForm.MEDIAN_ERROR),
    "max_error": ScoreFunction(rejection=_UNBOUNDED_CHANGE, no_interval=NO_TARGET),
    # Clustering.
    "adjusted_mutual_info": _clustering(is_bounded=False),
    "adjusted_rand": _clustering(SIGNED),
    "completeness": _clustering(),
    "fowlkes_mallows": _clustering(),
    "homogeneity": _clustering(),
    "mutual_info": _clustering(is_bounded=False),
    "normalized_mutual_info": _clustering(is_bounded=False),
    "rand": _clustering(),
    "v_measure": _clustering(),
}


def score_function(function_name: str) -> ScoreFunction:
    """Return the entry of :data:`SCORE_FUNCTIONS` for a score function of scikit-learn.

    Parameters
    ----------
    function_name : str
        Name in :mod:`sklearn.metrics`, such as ``"f1_score"``; empty for a caller's function.

    Returns
    -------
    ScoreFunction
        :data:`UNKNOWN` if the function has no entry.
    """
    return SCORE_FUNCTIONS.get(function_name.removesuffix("_score"), UNKNOWN)


def rejected_name(name: object) -> str:
    """Return the name of the entry of :data:`SCORE_FUNCTIONS` that rejects a scorer.

    Parameters
    ----------
    name : object
        Name of a scorer, such as ``"f1_macro"`` or ``"neg_root_mean_squared_error"``.

    Returns
    -------
    str
        Name of the entry; empty if there is none, or if it has no ``rejection``.
    """
    entry = str(name).removeprefix("neg_").removesuffix("_score")
    for suffix in ("_micro", "_macro", "_weighted", "_samples"):
        entry = entry.removesuffix(suffix)
    return entry if SCORE_FUNCTIONS.get(entry, UNKNOWN).rejection else ""
