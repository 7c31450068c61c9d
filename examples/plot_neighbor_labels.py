"""
=============================================
Models that use the labels of their neighbors
=============================================

Label propagation, neighbor votes and spatial lags predict a node from the labels of its neighbors.
When the model is used, the labels of the nodes to be predicted are unknown, and so they must be in
cross-validation and on the holdout. This example shows the right construction, and a feature
matrix that looks harmless and contains the labels.
"""

# %%
# The labels on a grid of 30 × 30 nodes resemble those of their neighbors.

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovNetwork

rng = np.random.default_rng(0)
edges = nx.to_scipy_sparse_array(nx.grid_2d_graph(30, 30), dtype=float)
color = np.add.outer(np.arange(30), np.arange(30)).ravel() % 2


def draw_labels():
    """Return labels -1 and 1 that neighbors pull along."""
    labels = rng.choice([-1.0, 1.0], 900)
    for sweep in range(60):
        updated = color == sweep % 2
        probability = 1 / (1 + np.exp(-0.7 * (edges @ labels)[updated]))
        labels[updated] = np.where(rng.random(450) < probability, 1, -1)
    return labels


# %%
# The right construction: ``X`` holds the number of the node, and ``fit`` stores the labels of the
# nodes that it is given. All other labels are 0, "unknown". Cross-validation and the holdout then
# ask the question that the model answers in use.


class NeighborVote(ClassifierMixin, BaseEstimator):
    """Logistic regression on the sum of the known labels of neighbors."""

    def __init__(self, edges, C=1.0):
        self.edges = edges
        self.C = C

    def votes(self, X):
        """Return the sum of the known labels of the neighbors, shape (n_samples, 1)."""
        return (self.edges[X[:, 0].astype(int)] @ self.known_labels_)[:, None]

    def fit(self, X, y):
        """Store the labels of the training nodes and fit the regression."""
        self.known_labels_ = np.zeros(self.edges.shape[0])
        self.known_labels_[X[:, 0].astype(int)] = 2 * y - 1
        self.model_ = LogisticRegression(C=self.C).fit(self.votes(X), y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        """Return the predicted classes, shape (n_samples,)."""
        return self.model_.predict(self.votes(X))

    def predict_proba(self, X):
        """Return the probabilities of the classes, shape (n_samples, 2)."""
        return self.model_.predict_proba(self.votes(X))


labels = draw_labels()
y = (labels > 0).astype(int)
node = np.arange(900)[:, None]
search = ReusableHoldoutSearchCV(
    NeighborVote(edges), {"C": [0.1, 1.0]}, correlation=MarkovNetwork(edges), random_state=0
)
report = search.fit(node, y).final_report()
print(f"neighbor vote: accuracy {report.value:.2f}, [{report.lower:.2f}, {report.upper:.2f}]")

# %%
# Training nodes lack the labels of their holdout neighbors, so plain cross-validation is too low
# for such a model. The column ``cv_score`` corrects for this and is compared with the holdout.
# ``mean_test_score`` is the mean over all folds, as in scikit-learn.

best = search.best_index_
print(f"mean_test_score {search.cv_results_['mean_test_score'][best]:.3f}")
print(f"cv_score        {search.cv_results_['cv_score'][best]:.3f}")

# %%
# The trap: two steps on a graph lead back to the node, so ``edges @ edges @ labels`` contains the
# label that is to be predicted. No check can detect this, because the features of a row are all
# that the library sees. The reported score is that of a model that knows the answer.

other_labels = draw_labels()
other_y = (other_labels > 0).astype(int)
leaky_features = np.column_stack([edges @ edges @ other_labels, edges @ other_labels])
leaky_search = ReusableHoldoutSearchCV(
    LogisticRegression(), {"C": [0.1, 1.0]}, correlation=MarkovNetwork(edges), random_state=0
)
leaky_report = leaky_search.fit(leaky_features, other_y).final_report()
held_out = leaky_search.holdout_indices_
known_labels = other_labels.copy()
known_labels[held_out] = 0.0  # the labels that are known when these nodes are predicted
features_in_use = np.column_stack([edges @ edges @ known_labels, edges @ known_labels])[held_out]
accuracy_in_use = leaky_search.best_estimator_.score(features_in_use, other_y[held_out])
print(f"reported {leaky_report.value:.2f}, [{leaky_report.lower:.2f}, {leaky_report.upper:.2f}]")
print(f"in use {accuracy_in_use:.2f}")

# %%
# Both reports beside the accuracy that the models have in use.

test_nodes = search.holdout_indices_
vote_in_use = search.best_estimator_.score(node[test_nodes], y[test_nodes])
figure, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
rows = [
    ("labels stored by fit", report, vote_in_use),
    ("features of all labels", leaky_report, accuracy_in_use),
]
for height, (_name, shown, in_use) in enumerate(rows):
    ax.plot([shown.lower, shown.upper], [height, height], color="#0072B2", lw=3)
    ax.plot(shown.value, height, "o", color="#0072B2", label="final report" if not height else None)
    ax.plot(in_use, height, "D", color="#D55E00", label="in use" if not height else None)
ax.set_yticks(range(len(rows)), [name for name, *_ in rows])
ax.set(xlabel="accuracy", xlim=(0.4, 1), ylim=(-0.5, 1.5))
ax.legend(frameon=False)
plt.show()
