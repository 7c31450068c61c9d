"""
=================================================
Who invited whom: circles of friends as one graph
=================================================

Members of a club join by invitation, and friends are alike, so a model of their behavior that
fails for one of them tends to fail for the next. The invitations are a networkx graph. Declared
as a ``DependencyGraph`` it declares that circles are independent of each other, and nothing about
their inside; 4,500 members are then worth little more than a hundred. A ``MarkovNetwork`` adds
one number, the influence along an invitation, and they are worth about nine times as many.
"""

# %%
# Six hundred circles, most of them small and a few large. Everybody but the founder of a circle
# was invited by one member, so each circle is a tree. A mood spreads along the invitations and
# changes at one in four.

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from simulated import make_graph
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import DependencyGraph, MarkovNetwork
from sklearn_bdp.inspection import HoldoutSearchDisplay

rng = np.random.default_rng(0)
sizes = np.minimum(4 + 4 * rng.pareto(1.3, 600), 120).astype(int)
circles = [nx.random_labeled_tree(int(size), seed=seed) for seed, size in enumerate(sizes)]
club = nx.disjoint_union_all(circles)
changed = 0.25
data = make_graph(
    graph=nx.to_scipy_sparse_array(club), flip=changed, separation=[2.0, -0.5], random_state=1
)

# %%
# The graph itself is the declaration. The influence of an edge is its largest log cross-ratio;
# for "the same mood with odds of 3 to 1, in either direction" that is twice the log of the odds.

structure = DependencyGraph(club)
strengths = MarkovNetwork(club, influence=2 * np.log((1 - changed) / changed))
print(structure.describe())
print(strengths.describe())

# %%
# The split takes whole circles, whichever of the two is declared. The same candidates then meet
# the same holdout under both declarations.

cut = structure.split(len(data.y), 0.6, random_state=0)
searches = {}
for name, model in {"graph alone": structure, "graph with strengths": strengths}.items():
    holdout = ReusableHoldout(
        data.X[cut.holdout], data.y[cut.holdout], correlation=model.subset(cut.holdout)
    )
    search = ReusableHoldoutSearchCV(
        LogisticRegression(),
        {"C": np.logspace(-4, 1, 6)},
        holdout=holdout,
        correlation=structure.subset(cut.train),  # the inner folds keep circles whole, too
    )
    searches[name] = search.fit(data.X[cut.train], data.y[cut.train])
    low, high = search.best_interval_
    effective_n = holdout.dependence.effective_n(holdout.n)
    print(f"{name:22} {holdout.n:,} members worth {effective_n:5.0f}: "
          f"{search.best_score_:.3f} in [{low:.3f}, {high:.3f}]")  # fmt: skip
best = search.best_estimator_
print(f"{'truth':22} {data.population_accuracy(best.coef_, best.intercept_):.3f}")

# %%
# One connected circle cannot be cut into whole parts, so structure alone does not help. With a
# strength it is split by nodes: intervals then refer to the holdout members, given the others.

novel = nx.les_miserables_graph()
try:
    DependencyGraph(novel).split(novel.number_of_nodes(), 0.5)
except ValueError as error:
    print(f"\nstructure alone: {str(error)[:104]} ...")
weak = MarkovNetwork(novel, influence=0.1)
members = weak.split(novel.number_of_nodes(), 0.5, random_state=0).holdout
print("with strengths:", weak.conditional_on_rest(members).describe(), "\n")


def true_accuracies(search):
    """Return the exact accuracy of every candidate, which only a simulator knows."""
    X, y = data.X[cut.train], data.y[cut.train]
    models = [LogisticRegression(**p).fit(X, y) for p in search.cv_results_["params"]]
    return [data.population_accuracy(model.coef_, model.intercept_) for model in models]


# %%
# Knowing the graph without strengths leaves intervals that rule out almost nothing. One number
# narrows them, and the truth stays inside.


def draw(name):
    """Draw a search beside the truth."""
    display = HoldoutSearchDisplay.from_search(searches[name], score_name="accuracy")
    ax = display.ax_
    ax.plot(display.position, true_accuracies(searches[name]), "k--", lw=1.2, label="truth")
    ax.set(title=name, ylim=(0, 1.02))
    ax.legend(frameon=False, fontsize="small", loc="lower right")


*other_names, last_name = searches
draw(last_name)

# %%
for name in other_names:
    draw(name)

# %%
# A few circles and their moods: neighbors agree, distant members do not.

figure, ax = plt.subplots(figsize=(7, 4.8), layout="constrained")
first = np.cumsum(sizes) - sizes  # number of each circle's founder
for spot, circle in enumerate(np.flatnonzero((sizes >= 8) & (sizes <= 60))[:12]):
    spread = 0.9 * np.sqrt(sizes[circle] / 60)
    layout = nx.kamada_kawai_layout(
        circles[circle], scale=spread, center=(1.5 * (spot % 4), 1.5 * (spot // 4))
    )
    moods = ["#0072B2" if data.states[first[circle] + m] else "#E69F00" for m in circles[circle]]
    nx.draw_networkx(
        circles[circle], layout, ax=ax, node_color=moods, node_size=22, with_labels=False,
        edge_color="grey",
    )  # fmt: skip
ax.set_title("Twelve of the 600 circles; color: mood")
ax.axis("off")
plt.show()
