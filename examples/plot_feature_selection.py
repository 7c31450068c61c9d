"""
Feature selection with verified accuracy
========================================

Eight of 2,000 features know something about the label. Two analysts choose features from the same
1,000 records; a quarter of them is a holdout.

- One adds one feature after the other and reads the raw holdout score of every candidate. Every
  step is a contest of 2,000 candidates on 250 records, and its winner is lucky as well as good:
  the reported accuracy climbs on, the accuracy on new records does not.
- The other lets :class:`~sklearn_bdp.feature_selection.HoldoutFeatureSelector` choose in the
  training set, with the ranking computed again inside each fold, and has the accuracy of the chosen
  subset verified. Here all subsets are verified for the picture. All intervals hold together.
"""

# %%
# The data: what every classifier is worth on the population can be estimated from new records.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.naive_bayes import GaussianNB

from sklearn_bdp.feature_selection import HoldoutFeatureSelector

N_FEATURES, N_TRUE, N_STEPS = 2_000, 8, 25


def draw(n, seed):
    """Return records whose first features are shifted a little by the label."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.standard_normal((n, N_FEATURES))
    X[:, :N_TRUE] += 0.3 * (2 * y - 1)[:, None]
    return X, y


X, y = draw(1_000, 0)
X_fresh, y_fresh = draw(10_000, 1)

# %%
# Verified selection, as it comes. The report lists what was verified and what was not.

frame = pd.DataFrame(X).add_prefix("f")
selector = HoldoutFeatureSelector(GaussianNB(), verify="all", random_state=0).fit(frame, y)
print(selector.report())
path = pd.DataFrame(selector.score_path_)
training_rows = selector.train_indices_
holdout_rows = selector.holdout_indices_

# %%
# Naive selection. Naive Bayes adds up one log-likelihood ratio per feature, so a step that tries
# all 2,000 candidates on the holdout is one matrix operation.


def log_ratios(records):
    """Return the evidence of each feature for label 1, from the training set."""
    evidence = np.empty(records.shape)
    for j in range(records.shape[1]):
        model = GaussianNB(priors=[0.5, 0.5]).fit(X[training_rows, j : j + 1], y[training_rows])
        joint = model.predict_joint_log_proba(records[:, j : j + 1])
        evidence[:, j] = joint[:, 1] - joint[:, 0]
    return evidence


on_holdout = log_ratios(X[holdout_rows])
chosen, sums = [], np.zeros(len(on_holdout))
naive = []
for _ in range(N_STEPS):
    hits = ((sums[:, None] + on_holdout) > 0) == (y[holdout_rows] == 1)[:, None]
    scores = hits.mean(axis=0)
    scores[chosen] = 0.0
    chosen.append(int(scores.argmax()))
    sums += on_holdout[:, chosen[-1]]
    naive.append(scores.max())


def accuracy_on_fresh_records(columns):
    """Return the accuracy of the classifier with these features."""
    columns = list(columns)
    model = GaussianNB().fit(X[training_rows][:, columns], y[training_rows])
    return model.score(X_fresh[:, columns], y_fresh)


naive_truth = [accuracy_on_fresh_records(chosen[: k + 1]) for k in range(N_STEPS)]
best = path[path["ranking"] == path.loc[path["selected"], "ranking"].item()]
best = best[best["n_features"] <= 100]
truth = [accuracy_on_fresh_records(columns) for columns in best["features"]]
for name, columns in (("naive", chosen), ("verified", selector.get_support(indices=True))):
    true = sum(j < N_TRUE for j in columns)
    print(f"{name}: {true} of {N_TRUE} true features, {len(columns) - true} useless ones")

# %%
# The naive report drifts away from the truth; the verified one covers it all along the path.

figure, ax = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
steps = np.arange(1, N_STEPS + 1)
ax.plot(steps, naive, "s--", color="#D55E00", ms=4, label="naive: reported by the holdout")
ax.plot(steps, naive_truth, ":", color="#D55E00", lw=2, label="naive: on new records")
error = np.abs(best[["holdout_lower", "holdout_upper"]].sub(best["holdout_score"], axis=0)).T
ax.errorbar(
    best["n_features"],
    best["holdout_score"],
    yerr=error.to_numpy(),
    fmt="o-",
    color="#0072B2",
    capsize=3,
    label="verified: reported, with interval",
)
ax.plot(best["n_features"], truth, ":", color="#0072B2", lw=2, label="verified: on new records")
row = path[path["selected"]].iloc[0]
ax.annotate(
    f"selected: {row['n_features']} features",
    (row["n_features"], row["holdout_score"]),
    xytext=(row["n_features"] * 1.5, 0.93),
    arrowprops={"arrowstyle": "->", "color": "#0072B2"},
    color="#0072B2",
)
ax.set(xlabel="features selected", ylabel="accuracy", title="8 true features among 2,000")
ax.set_xscale("log")
ax.grid(alpha=0.3, lw=0.5)
ax.legend(frameon=False, fontsize="small", loc="lower left")
plt.show()

# %%
# The end of the story is a final report: the number to publish, by as many metrics as it takes. It
# closes the holdout.

print(selector.final_report(scoring=["accuracy", "roc_auc", "neg_brier_score"]))
