"""
=================================
A year of analysis on one holdout
=================================

Ten months, ten ideas, each built on what the earlier ones taught, and one holdout for all of them.
The account lives in a file. Every month starts a new session that knows nothing but the data
and the path of that file: the budget is where the last session left it, and no copy, crash or
restart gets a second one.
"""

# %%
# One holdout for the year, and as many digits locked away to judge the year by.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

from sklearn_bdp import ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.inspection import BudgetDisplay

# The digits come writer by writer. We learn from the first ones and care about the others, which is
# how it goes: models are made from last year's customers.
X, y = load_digits(return_X_y=True)
X_train, y_train = X[:600], y[:600]
X_hold, X_fresh, y_hold, y_fresh = train_test_split(
    X[600:], y[600:], test_size=0.5, stratify=y[600:], random_state=0
)

# %%
# The ideas of the year. ``won`` holds the winners so far; later ideas start from them. That is
# what adaptive means, and what an ordinary holdout does not forgive.


def around(value, factors=(0.5, 0.7, 1.0, 1.4, 2.0)):
    """Return a finer grid around a winner."""
    return [value * factor for factor in factors]


def with_pca(classifier):
    """Return the classifier behind a principal component analysis."""
    return Pipeline([("pca", PCA(random_state=0)), ("clf", classifier)])


ideas = {
    "neighbors": lambda won: {
        "estimator": KNeighborsClassifier(),
        "param_grid": {"n_neighbors": range(1, 13)},
    },
    "logistic": lambda won: {
        "estimator": LogisticRegression(max_iter=2000, tol=0.01),
        "param_grid": {"C": np.logspace(-4, -1, 7)},
    },
    "RBF": lambda won: {
        "estimator": SVC(),
        "param_grid": {"C": [1, 10], "gamma": np.logspace(-4, -2, 7)},
    },
    "RBF, finer": lambda won: {
        "estimator": SVC(),
        "param_grid": {"C": around(won["RBF"]["C"]), "gamma": around(won["RBF"]["gamma"])},
    },
    "polynomial": lambda won: {
        "estimator": SVC(kernel="poly"),
        "param_grid": {"degree": [2, 3, 4], "C": [0.1, 1, 10]},
    },
    "PCA, RBF": lambda won: {
        "estimator": with_pca(SVC(**won["RBF, finer"])),
        "param_grid": {"pca__n_components": range(10, 61, 5)},
    },
    # The intern compares accuracies on the very digits her trees were grown on.
    "trees (intern)": lambda won: {
        "estimator": ExtraTreesClassifier(60, random_state=0),
        "param_grid": {"max_features": [4, 8, 16, 32], "min_samples_leaf": [1, 2, 4]},
        "cv": [(np.arange(600), np.arange(600))],
    },
    "trees again": lambda won: {
        "estimator": ExtraTreesClassifier(60, random_state=0),
        "param_grid": {"max_features": [2, 4, 6], "min_samples_leaf": [1, 2]},
    },
    "PCA, neighbors": lambda won: {
        "estimator": with_pca(KNeighborsClassifier()).set_params(**won["PCA, RBF"]),
        "param_grid": {"clf__n_neighbors": [1, 2, 3, 4], "clf__weights": ["uniform", "distance"]},
    },
    "last polish": lambda won: {
        "estimator": with_pca(SVC(**won["RBF, finer"])).set_params(**won["PCA, RBF"]),
        "param_grid": {"clf__gamma": around(won["RBF, finer"]["gamma"])},
    },
}

# %%
# Every month opens the ledger anew, as a notebook started that morning would. Only the path is
# carried over; the numbers that matter are read from the file.


def one_month(ledger, idea, won):
    """Ask the holdout about one idea, in a session of its own."""
    holdout = ReusableHoldout(X_hold, y_hold, ledger=ledger)
    options = {"cv": 4} | idea(won)
    return ReusableHoldoutSearchCV(holdout=holdout, **options).fit(X_train, y_train)


won, diary = {}, []
with tempfile.TemporaryDirectory() as archive:
    ledger = Path(archive) / "holdout.sqlite"
    for name, idea in ideas.items():
        search = one_month(ledger, idea, won)
        won[name] = search.best_params_
        new_accuracy = search.score(X_fresh, y_fresh)
        low, high = search.best_interval_
        diary.append((search.best_score_, low, high, new_accuracy))
        print(f"{name:15}{len(search.cv_results_['params']):3} candidates   verified "
              f"{search.best_score_:.3f} in [{low:.3f}, {high:.3f}]   fresh {new_accuracy:.3f}   "
              f"information {search.holdout_.information_spent:5.1f} nats")  # fmt: skip

    # Rerunning an old notebook asks nothing new, so the ledger answers it for free.
    spent = search.holdout_.information_spent
    one_month(ledger, ideas["trees again"], won)
    holdout = ReusableHoldout(X_hold, y_hold, ledger=ledger)
    assert holdout.information_spent == spent
    released = search.without_holdout().holdout_  # all that was said, without the records
    print(f"\n{holdout}")

# %%
# What was reported each month: all ten intervals are correct together with probability at least
# 95%, although the queries of October were unknown in January. While
# cross-validation predicts the holdout, a month costs next to nothing. Then the intern reports
# perfect trees. The holdout corrects her, and an answer that had to come from the holdout costs
# about ten nats. The month after pays once more: what was learnt from her inflated scores does
# not fit cross-validated ones. Every new interval is wider for it. (A candidate that was asked
# before gets its recorded answer, with its old interval, for nothing.)

verified_scores, low, high, new_accuracies = np.array(diary).T
months = np.arange(1, len(ideas) + 1)
figure, ax = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
ax.vlines(months, low, high, color="#0072B2", lw=6, alpha=0.35, label="interval")
ax.plot(months, verified_scores, "s", color="#0072B2", label="verified, best of the month")
ax.plot(
    months,
    new_accuracies,
    "_",
    color="black",
    ms=16,
    mew=2,
    label=f"{len(y_fresh)} digits never asked about",
)
ax.set_xticks(months, ideas, rotation=35, ha="right")
n_covering = int(((low <= new_accuracies) & (new_accuracies <= high)).sum())
ax.set(ylabel="accuracy", title=f"Ten searches: {n_covering} of 10 intervals hold")
ax.grid(axis="y", alpha=0.3)
ax.set_ylim(bottom=0.68)
ax.legend(frameon=False, fontsize="small", loc="lower left")

# %%
# What each month's answers pay for.

display = BudgetDisplay.from_holdout(released)
display.ax_.set_xlabel("month")
display.ax_.legend(frameon=False, fontsize="small", loc="lower right")
plt.show()
