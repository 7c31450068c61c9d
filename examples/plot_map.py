"""
==============================================
A map: from coordinates to a report of ROC AUC
==============================================

Wells on a map, of which some are polluted. Near wells resemble each other, so that a random split
reports a score that is too certain. Coordinates become a graph of neighbors, the graph is the
declaration, and the search holds out wells of which no two are neighbors. The model votes by the
labels of near training wells; no label of the holdout is known to it.
"""

# %%
# The table has coordinates, a measurement and a label. Pollution follows a smooth field.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, kneighbors_graph
from sklearn.pipeline import make_pipeline

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovNetwork

rng = np.random.default_rng(0)
locations = rng.random((1500, 2))
field = np.sin(9 * locations[:, 0]) * np.cos(7 * locations[:, 1])
measurements = field + rng.normal(size=1500)
polluted = (field + 0.5 * rng.normal(size=1500) > 0.3).astype(int)
wells = np.column_stack([locations, measurements])

# %%
# Rows of the matrix are rows of the table. Two wells at one location would be neighbors, too.

network = MarkovNetwork(kneighbors_graph(locations, 8))

# %%
# Nearest neighbors on the map use the labels of training wells only: they know those that they
# were fitted on. In ``cv_score``, training wells count so that they see as many labeled neighbors
# as holdout wells do.

on_the_map = make_pipeline(make_column_transformer(("passthrough", [0, 1])), KNeighborsClassifier())
search = ReusableHoldoutSearchCV(
    on_the_map,
    {"kneighborsclassifier__n_neighbors": [3, 10, 30]},
    correlation=network,
    scoring="roc_auc",
    random_state=0,
)
search.fit(wells, polluted)
print(search.certificate_)

# %%
# The final report compares with a model that ignores the map. Accuracy has a proven interval, ROC
# AUC an approximate one: wells are not alike.

by_measurement = make_pipeline(
    make_column_transformer(("passthrough", [2])), LogisticRegression()
).fit(wells[search.train_indices_], polluted[search.train_indices_])
report = search.final_report(scoring=["roc_auc", "accuracy"], compare=by_measurement)
print(report)

# %%
# Held-out wells, none beside another. The interval is about these wells, not about another map.

holdout_rows = search.holdout_indices_
figure, ax = plt.subplots(figsize=(6.5, 5.5), layout="constrained")
ax.scatter(*locations.T, c=np.where(polluted, "#E69F00", "#0072B2"), s=8, alpha=0.5)
ax.scatter(*locations[holdout_rows].T, facecolors="none", edgecolors="black", s=40)
ax.set(title=f"{len(holdout_rows)} wells held out of 1,500 (circles); color: polluted or not")
ax.set(xlabel="longitude", ylabel="latitude")
plt.show()
