"""
Why is my interval this wide?
=============================

The half-width of a verified score has three parts: what one fixed query on so many records would
have, what is added because more than this was asked, and noise with rounding. Interim intervals
of a search leave most of the failure probability to the final report, so the report is narrower.
"""

# %%
# Ten searches of twenty candidates on one holdout of 300 records, then the final report.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import ReusableHoldoutSearchCV

X, y = make_classification(1200, 20, n_informative=5, flip_y=0.1, random_state=0)
rng = np.random.default_rng(0)


def grid():
    """Return twenty new values of C."""
    return {"C": np.round(10 ** rng.uniform(-4, 2, 20), 6).tolist()}


search = ReusableHoldoutSearchCV(LogisticRegression(), grid(), random_state=0).fit(X, y)
train, holdout, interim = search.train_indices_, search.holdout_, []
for number in range(1, 11):
    if number > 1:
        search = ReusableHoldoutSearchCV(LogisticRegression(), grid(), holdout=holdout)
        search.fit(X[train], y[train])
    lower, upper = search.best_interval_
    interim.append((upper - lower) / 2)
report = search.final_report()

# %%
# The parts of the final report's own half-width stand in its row.

fixed, adaptive, noise = report.rows[0].half_width_components
print(f"one fixed query ±{fixed:.3f}, adaptive queries {adaptive:.3f}, noise {noise:.3f}")
figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
ax.plot(range(1, 11), interim, "o-", color="#777777", label="interim interval after each search")
for bottom, component, color, label in (
    (0.0, fixed, "#0072B2", "final report: one fixed query on 300 records"),
    (fixed, adaptive, "#56B4E9", "everything else that was asked"),
    (fixed + adaptive, noise, "#D55E00", "noise"),
):
    ax.bar(11.2, component, bottom=bottom, width=0.8, color=color, label=label)
ax.set(xlabel="search", ylabel="half-width of the interval (accuracy)", ylim=(0, None))
ax.set_xticks([*range(1, 11), 11.2], [*map(str, range(1, 11)), "report"])
ax.legend(loc="lower left", fontsize=8)
plt.show()
