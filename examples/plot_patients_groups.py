"""
======================================================
Patients with several visits: count patients, not rows
======================================================

Patients come back, and each visit is a row. A classifier that recognizes the *patient* knows the
diagnosis without knowing any medicine. Split such rows at random and the same patients sit on
both sides: cross-validation and holdout agree with each other, and both are wrong about the next
patient. Declaring ``correlation="groups"`` keeps every patient on one side and counts
patients, not rows, in the intervals.
"""

# %%
# Here are 1,500 patients with two to ten visits each. Visits of one patient share the
# diagnosis and most of what else can be measured; the diagnosis itself shows only faintly.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.inspection import HoldoutSearchDisplay

rng = np.random.default_rng(0)


def visit(visits):
    """Return visits of patients: one diagnosis each, and four fifths of the noise in common."""
    patient = np.repeat(np.arange(len(visits)), visits)
    y = rng.integers(0, 2, len(visits))[patient]
    strength = rng.choice([1.0, 0.3], len(visits))[patient]  # how clearly the diagnosis shows
    common_noise = rng.normal(size=(len(visits), 20))[patient]
    own_noise = rng.normal(size=(len(y), 20))
    X = np.sqrt(0.8) * common_noise + np.sqrt(0.2) * own_noise
    X[:, :5] += ((2 * y - 1) * strength / np.sqrt(5))[:, None]
    return X, y, patient


visits = rng.integers(2, 11, size=1500)
clinic = visit(visits)
calendar = rng.permutation(len(clinic[0]))  # visits come in the order of dates, not of patients
X, y, patient = (part[calendar] for part in clinic)
print(f"{len(visits):,} patients, {len(y):,} visits")

# %%
# Two searches over the same neighborhood sizes. The first believes that rows are independent. The
# second knows the patients; its holdout and its inner folds consist of whole patients.

grid = {"n_neighbors": [1, 3, 9, 27, 81, 243]}
rows = ReusableHoldoutSearchCV(KNeighborsClassifier(), grid, holdout=0.5)
rows.fit(X, y)
patients = ReusableHoldoutSearchCV(KNeighborsClassifier(), grid, holdout=0.5, correlation="groups")
patients.fit(X, y, groups=patient)

# %%
# What counts is the next patient. Here we can draw as many as we like.

X_new, y_new, _ = visit(np.ones(5000, dtype=int))


def on_new_patients(search):
    """Return the accuracy of each neighborhood size on patients who never came before."""
    train = search.train_indices_
    models = [
        KNeighborsClassifier(**p).fit(X[train], y[train]) for p in search.cv_results_["params"]
    ]
    return np.array([model.score(X_new, y_new) for model in models])


searches = {"split by row": rows, "split by patient": patients}
truth = {name: on_new_patients(search) for name, search in searches.items()}
for name, search in searches.items():
    low, high = search.best_interval_
    model = search.holdout_.dependence
    n = search.holdout_.n
    print(f"\n{name}: {n:,} visits, worth {model.effective_n(n):,.0f} independent ones")
    print(f"  chosen      {search.best_params_['n_neighbors']} neighbors")
    print(f"  verified    {search.best_score_:.3f} in [{low:.3f}, {high:.3f}]")
    print(f"  new patient {truth[name][search.best_index_]:.3f}")

# %%
# The search over patients shows how little 750 patients determine, and it selects the best model.


def draw(name):
    """Draw a search beside the accuracy on new patients."""
    search = searches[name]
    display = HoldoutSearchDisplay.from_search(search, score_name="accuracy")
    ax = display.ax_
    ax.plot(display.position, truth[name], "k--", lw=1.5, label="new patients (truth)")
    lower_limits = search.cv_results_["holdout_lower"]
    upper_limits = search.cv_results_["holdout_upper"]
    n_covering = int(((lower_limits <= truth[name]) & (truth[name] <= upper_limits)).sum())
    ax.set_title(f"{name}: {n_covering} of {len(lower_limits)} intervals contain the truth")
    ax.set(xlabel="neighbors", ylim=(0.3, 1.03))
    ax.set_xticks(display.position, [f"{value:g}" for value in display.position])
    ax.set_xticks([], minor=True)
    ax.legend(frameon=False, fontsize="small", loc="lower left")


by_row, by_patient = searches
draw(by_patient)

# %%
# The search over rows is certain, precise and wrong, and it picks one of the worst models. No
# mechanism can repair that: intervals are valid *if the declared correlation is right*.

draw(by_row)
plt.show()
