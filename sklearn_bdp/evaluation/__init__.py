"""Evaluation of candidates for searches and selectors: split, cross-validate, fit, query."""

from sklearn_bdp.evaluation.candidates import (
    Candidate,
    FitTask,
    HoldoutFitJob,
    ModelStore,
    PrefixMemory,
    SearchSetup,
)
from sklearn_bdp.evaluation.fit_data import FitData
from sklearn_bdp.evaluation.fits import FinishedFits, FoldScores
from sklearn_bdp.evaluation.holdout_split import HoldoutSplit
