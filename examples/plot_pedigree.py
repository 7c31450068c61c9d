"""
=============================================
A pedigree: what inheritance tables are worth
=============================================

Animals of one family resemble each other, so a holdout of 3,000 animals is not 3,000 pieces of
evidence. Saying only who is related is safe and expensive, because it allows an aunt to determine
her niece. Breeders know better: a hidden disposition passes from mother to daughter with known
probabilities. That is a Bayesian network with one table per animal, in which the influence of
relatives fades with every birth between them.
"""

# %%
# A family here is a founding cow, four daughters and sixteen granddaughters; there are 300
# families. ``make_graph`` passes a disposition down the maternal lines, changed with probability
# 0.2. A test for some disease works well on one disposition and badly on the other.

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from simulated import make_graph
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import BayesianNetwork, DependencyGraph

family = nx.balanced_tree(4, 2)  # the founder is 0, her daughters 1 to 4
herd = nx.disjoint_union_all([family] * 300)
n, size = herd.number_of_nodes(), family.number_of_nodes()
changed = 0.2
data = make_graph(
    graph=nx.to_scipy_sparse_array(herd), flip=changed, separation=[2.0, -0.5], random_state=0
)

# %%
# The pedigree as parents and tables: founders carry either disposition equally often, daughters
# mostly their mother's.

mother = {child: parent for parent, child in nx.bfs_edges(family, 0)}
parents = [
    [start + mother[animal]] if animal in mother else []
    for start in range(0, n, size)
    for animal in family
]
inherits = [[1 - changed, changed], [changed, 1 - changed]]
tables = [inherits if parents_of_animal else [0.5, 0.5] for parents_of_animal in parents]
pedigree = BayesianNetwork(parents, tables)
related = DependencyGraph(herd)  # who is related, and nothing about how strongly
print(pedigree.describe())
print(related.describe())

# %%
# The split never cuts a family. We split once and ask the same query under three
# declarations; to forget kinship is the third.

cut = pedigree.split(n, 0.5, random_state=0)
X_train, y_train = data.X[cut.train], data.y[cut.train]
declared = {
    "independent": None,
    "who is related": related.subset(cut.holdout),
    "pedigree with tables": pedigree.subset(cut.holdout),
}
intervals = {}
for name, correlation in declared.items():
    holdout = ReusableHoldout(data.X[cut.holdout], data.y[cut.holdout], correlation=correlation)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(),
        {"C": [0.001, 0.01, 0.1, 1.0]},
        holdout=holdout,
        correlation=related.subset(cut.train),  # the inner folds keep families whole, too
    )
    search.fit(X_train, y_train)
    intervals[name] = low, high = search.best_interval_
    effective_n = holdout.dependence.effective_n(holdout.n)
    print(f"{name:22} {holdout.n:,} animals worth {effective_n:5.0f}: "
          f"{search.best_score_:.3f} in [{low:.3f}, {high:.3f}]")  # fmt: skip
best = search.best_estimator_
truth = data.population_accuracy(best.coef_, best.intercept_)
print(f"{'truth':22} {truth:.3f}")

# %%
# What that buys. (The interval that ignores kinship may well contain the truth on a given day.
# Nothing guarantees that it will.)

figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
for row, (low, high) in enumerate(intervals.values()):
    ax.hlines(row, low, high, color="#0072B2", lw=6)
ax.axvline(truth, color="black", ls="--", lw=1, label=f"true accuracy {truth:.3f}")
ax.set_yticks(range(3), intervals)
ax.set(ylim=(2.6, -0.6), xlabel="accuracy", title="Verified interval")
ax.grid(axis="x", alpha=0.3)
ax.legend(frameon=False, fontsize="small", loc="lower right")

# %%
# The reason: the most that one relative can say about another, in nats. Entries of a power of the
# table are probabilities after so many births, and their largest log-ratio falls with every birth.
# Kinship alone puts no limit on it.

births = np.arange(1, 5)
powers = [np.linalg.matrix_power(np.array(inherits), count) for count in births]
influence = [np.log(power[0, 0] / power[1, 0]) for power in powers]
figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
ax.plot(births, influence, "o-", color="#0072B2", label="pedigree with tables")
ax.axhline(1.6, color="grey", ls=":", label="who is related: no limit")
ax.set(ylim=(0, 1.8), xlabel="births between them", ylabel="influence (nats)")
ax.set_xticks(births)
ax.grid(alpha=0.3)
ax.legend(frameon=False)

# %%
# One family and its dispositions.

granddaughters = [animal for animal in family if animal > 4]
position_of_animal = {animal: (index, 0.0) for index, animal in enumerate(granddaughters)}
for animal in (4, 3, 2, 1, 0):
    children = [child for child, parent in mother.items() if parent == animal]
    heights = [position_of_animal[child][1] for child in children]
    position_of_animal[animal] = (
        np.mean([position_of_animal[child][0] for child in children]),
        max(heights) + 1.0,
    )
colors = ["#0072B2" if state else "#E69F00" for state in data.states[:size]]
figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
nx.draw_networkx(
    family,
    position_of_animal,
    ax=ax,
    node_color=colors,
    node_size=90,
    with_labels=False,
    edge_color="grey",
)
ax.set(title="One family; color: hidden disposition", ylim=(-0.3, 2.3), xlim=(-7.5, 15.5))
for generation, name in enumerate(("granddaughters", "daughters", "founder")):
    ax.text(-1, generation, name, ha="right", va="center", color="#555555")
ax.axis("off")
plt.show()
