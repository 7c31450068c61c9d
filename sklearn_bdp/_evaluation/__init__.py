"""One candidate: split, folds, open a holdout, fit, score, digest; for searches and selectors."""

from sklearn_bdp._evaluation.candidates import (
    Candidate,
    Experiment,
    ModelStore,
    PrefixMemory,
    Task,
    WholeJob,
)
from sklearn_bdp._evaluation.division import FitData, divide
from sklearn_bdp._evaluation.fits import FoldScores, Progress
