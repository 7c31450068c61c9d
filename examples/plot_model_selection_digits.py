"""
=====================================================
Handwritten digits: swap the search, keep the holdout
=====================================================

Sixty support vector machines compete for a few hundred handwritten digits. With
``GridSearchCV`` the winner's score is the best of sixty noisy numbers. Here the same grid goes to
:class:`~sklearn_bdp.ReusableHoldoutSearchCV`, which cross-validates on a training set and lets
Thresholdout compare each candidate with a holdout. Every candidate comes back with an interval for
its accuracy on new digits, and all intervals hold at once with probability 95%. So the
holdout may be asked again, and the second search does.
"""

# %%
# We keep 797 digits out of everything: they check the intervals at the end, and in a
# real project you would not have them.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.inspection import HoldoutSearchDisplay

X, y = load_digits(return_X_y=True)
X, X_fresh, y, y_fresh = train_test_split(X, y, train_size=1000, stratify=y, random_state=0)

# %%
# The one change to an ordinary grid search is the name of the class. It sets a part of the
# records set aside as the holdout; 40% here, because the width of an interval depends on little
# else.

grid = {"C": np.logspace(-1, 2, 6), "gamma": np.logspace(-5, -2, 10)}
search = ReusableHoldoutSearchCV(SVC(), grid, holdout=0.4, cv=3).fit(X, y)

low, high = search.best_interval_
print(f"chosen:   C={search.best_params_['C']:.3g}, gamma={search.best_params_['gamma']:.2g}")
print(f"verified: {search.best_score_:.3f}, in [{low:.3f}, {high:.3f}]")
print(f"fresh:    {search.score(X_fresh, y_fresh):.3f} on {len(y_fresh)} digits never used")
print(f"information:     the answers revealed {search.holdout_.information_spent:.1f} nats")

# %%
# Now another idea, born from the answers above: polynomial kernels. A plain holdout would be
# worn out by now. This one is passed on, and the account goes with it.

X_train, y_train = X[search.train_indices_], y[search.train_indices_]
polynomial = ReusableHoldoutSearchCV(
    SVC(kernel="poly"), {"degree": [2, 3, 4], "C": [0.1, 1.0, 10.0]}, holdout=search.holdout_, cv=3
).fit(X_train, y_train)

low, high = polynomial.best_interval_
print(
    f"\npolynomial kernels, same holdout: {polynomial.best_score_:.3f} in [{low:.3f}, {high:.3f}]"
)
print(f"fresh:    {polynomial.score(X_fresh, y_fresh):.3f}")

# %%
# Are the intervals correct? We fit every candidate once more, on the training set, and measure
# it on the digits that were never used.


def fresh_accuracies(search):
    """Return the accuracy of each candidate on new digits."""
    models = [clone(search.estimator).set_params(**p) for p in search.cv_results_["params"]]
    return np.array([model.fit(X_train, y_train).score(X_fresh, y_fresh) for model in models])


# %%
# Each candidate is a column: circles are cross-validated scores, squares verified ones with their
# intervals. Crosses are scores that the holdout corrected. What a correction teaches moves the
# scores verified after it, so that squares without a cross may differ from their circles, too.
# Candidates far behind the leader keep wide intervals: narrowing them would widen all others.


def draw(fitted, name):
    """Draw a search, and beside its scores the accuracy on new digits."""
    fresh = fresh_accuracies(fitted)
    results = fitted.cv_results_
    inside = int(((results["holdout_lower"] <= fresh) & (fresh <= results["holdout_upper"])).sum())
    display = HoldoutSearchDisplay.from_search(fitted, score_name="accuracy")
    rows = np.lexsort((-results["cv_score"], -results["holdout_score"]))
    rows = rows[: len(display.position)]
    style = {"color": "black", "ms": 8, "mew": 1.5, "label": "new digits"}
    display.ax_.plot(display.position, fresh[rows], "_", **style)
    display.ax_.legend(
        frameon=False, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2
    )
    display.figure_.suptitle(
        f"{name}: {inside} of {len(fresh)} intervals contain the accuracy on new digits"
    )
    print(f"{name}: {inside} of {len(fresh)} intervals cover new digits")


draw(search, "RBF kernels")

# %%
# The second search, on the same holdout.

draw(polynomial, "Polynomial kernels")
plt.show()
