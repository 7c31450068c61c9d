"""
===================================================
A machine log: declare the autocorrelation
===================================================

A machine alternates between two operating regimes, each lasting about a hundred records. In one
of them a classifier does well, in the other it is worse than a coin. The accuracy on a
holdout then depends on how much time it happened to spend in each regime, and 25,000 records are
worth a few hundred. We estimate the transition matrix on the training set, look at the errors of
cross-validation, and compare the intervals of four declarations with the truth.
"""

# %%
# The log records the regime of every moment. (Where it does not, one estimates the matrix
# from a model of the regimes; only what happened before the holdout may be used for that.)

import warnings

import matplotlib.pyplot as plt
import numpy as np
from simulated import make_regimes
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from sklearn_bdp import ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.exceptions import DependenceWarning

data = make_regimes(40_000, [[0.99, 0.01], [0.01, 0.99]], separation=[2.0, -0.5], random_state=0)
past = 15_000
X_past, y_past = data.X[:past], data.y[:past]

# %%
# ``from_states`` counts transitions. One colleague guesses that regimes last two or three
# records, and another one declares nothing.

declared = {
    "independent": None,
    "a guess": MarkovChain([[0.6, 0.4], [0.4, 0.6]]),
    "estimated": MarkovChain.from_states(data.states[:past]),
}

# %%
# Regimes are usually unknown. The autocorrelation time of *scores* shows in the past:
# ``from_scores`` declares one and a half times that of cross-validated scores, an assumption.
# (``correlation="time"`` needs no such number, and speaks of the holdout's own period.)

hits = cross_val_predict(LogisticRegression(), X_past, y_past, cv=5) == y_past
declared["read off scores"] = MarkovChain.from_scores(hits)
print(declared["read off scores"].describe())

print("estimated:", declared["estimated"].describe())

# %%
# A holdout cut from the same sequence starts where the training set left it. Dropping some
# records in between makes both nearly independent; ``required_gap`` computes how many.

gap = declared["estimated"].required_gap(0.001)
X_later, y_later = data.X[past + gap :], data.y[past + gap :]
print(f"{past:,} records to learn from, {gap} dropped, {len(y_later):,} in the holdout\n")

intervals, scores = {}, {}
for name, correlation in declared.items():
    holdout = ReusableHoldout(X_later, y_later, correlation=correlation, gap=gap)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.001, 0.03, 1.0]}, holdout=holdout
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DependenceWarning)
        search.fit(X_past, y_past)
    intervals[name], scores[name] = search.best_interval_, search.best_score_
    best = search.best_estimator_
    truth = data.population_accuracy(best.coef_, best.intercept_)  # a simulator knows
    low, high = search.best_interval_
    verdict = "holds" if low <= truth <= high else "misses the truth"
    print(f"{name:22} {search.best_score_:.3f} in [{low:.3f}, {high:.3f}]  {verdict}")
    for warning in caught:
        print(f"    the search warns: {warning.message}")
print(f"{'truth':22} {truth:.3f}")

# %%
# Where nothing is declared, the search warns. The strength of a declared chain is an assumption
# that nobody tests, but one can look at the training set first. For a chain, the sum of
# autocorrelations of errors climbs to the number of records that count as one. The guess declares
# 1.5, and the errors pass that after a few lags. Such a look can convict a declaration, not acquit
# it: other scores may depend on the regimes more than these errors do.

estimated = declared["estimated"]
predicted = cross_val_predict(LogisticRegression(), X_past, y_past, cv=estimated.folds(past, 5))
errors = (predicted != y_past).astype(float)

centered = errors - errors.mean()
products = [centered[: past - lag] @ centered[lag:] for lag in range(201)]
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(2.0 * np.cumsum(products) / products[0] - 1.0, label="errors, summed up to this lag")
for name, color in (("a guess", "#D55E00"), ("estimated", "#009E73")):
    promised = past / declared[name].effective_n(past)
    ax.axhline(promised, color=color, ls="--", label=f"declared ({name}): {promised:.3g}")
ax.set(xlabel="lag (records)", ylabel="records that equal one independent record")
ax.set_title("Training data refute the guess")
ax.legend(frameon=False, fontsize="small")

# %%
# The intervals that each declaration gives.

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for row, (name, (low, high)) in enumerate(intervals.items()):
    contains_truth = low <= truth <= high
    ax.hlines(row, low, high, color="#0072B2" if contains_truth else "#D55E00", lw=5)
    ax.plot(scores[name], row, "s", color="black", ms=5)
    word = "correct" if contains_truth else "misses"
    ax.annotate(word, (high, row), xytext=(6, -4), textcoords="offset points")
ax.axvline(truth, color="black", ls="--", lw=1, label=f"true accuracy {truth:.3f}")
labels = [name.replace("with error", "and the\nerror paid for") for name in intervals]
ax.set_yticks(range(len(intervals)), labels)
ax.set(xlabel="verified accuracy and its interval", xlim=(0.2, 1.1), ylim=(3.6, -0.6))
ax.grid(axis="x", alpha=0.3)
ax.legend(frameon=False, fontsize="small", loc="lower left")
plt.show()
