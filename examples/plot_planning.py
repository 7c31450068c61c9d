"""
======================================================
Before the data arrive: threshold, noise, budget, size
======================================================

How many records must be set aside, and what will they promise? :func:`~sklearn_bdp.certify`
answers for a holdout you have, :func:`~sklearn_bdp.plan_holdout` for one you want. Both speak
about the worst case over every analyst who asks up to ``n_queries`` queries one by one and gets
up to ``budget`` of them answered from the holdout, so their numbers are sober.
"""

# %%
# What 20,000 records promise to 500 queries. A certificate says what it holds under and what
# would make it better.

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sklearn_bdp import certify, plan_holdout
from sklearn_bdp.correlation import Groups
from sklearn_bdp.inspection import PlanDisplay
from sklearn_bdp.planning import plan_budget

parser = argparse.ArgumentParser(description="Planning threshold, noise, budget and size.")
parser.add_argument("--output", type=Path, default=Path("output"), help="folder of the picture")
folder = parser.parse_args().output

print(certify(20_000, n_queries=500, budget=3))

# %%
# **Budget.** Each answer from the holdout gives something away, and the promise has to be made for
# every way in which that may be used. The threshold follows: it is the overfitting that is worth
# an answer, as low as the error allows.

print("\nbudget  threshold  certified error  (100,000 records, 500 queries)")
budgets = (1, 3, 10, 30, 100)
by_budget = [certify(100_000, n_queries=500, budget=budget) for budget in budgets]
for certificate in by_budget:
    print(f"{certificate.budget:6}  {certificate.threshold:9.3f}  {certificate.tau:15.3f}")
largest = plan_budget(tau=0.1, n=100_000, n_queries=500)
print(f"the largest budget that still gives ± 0.1 is {largest}")

# %%
# **Noise.** None is needed for generalization alone: answers on a coarse grid give little
# away by themselves. Whoever also wants a Bayesian differential privacy level for the holdout's
# records asks for it with ``epsilon``. The best scales come ready to use, as ``mechanism``.

print("\nepsilon  query noise  answer noise  certified error")
levels = (None, 10.0, 1.0, 0.1)
by_level = [certify(100_000, n_queries=500, budget=10, epsilon=level) for level in levels]
for level, certificate in zip(levels, by_level, strict=True):
    mechanism = certificate.mechanism
    print(f"{level or 'none'!s:>7}  {mechanism.query_scale:11.2g}  "
          f"{mechanism.answer_scale:12.2g}  {certificate.tau:15.3f}")  # fmt: skip

# %%
# **Size.** What others need for the same promise: data splitting spends fresh records on each
# query; the papers' theorems are valid and large.

goal = {"tau": 0.05, "n_queries": 500, "budget": 3}
print("\nrecords for ± 0.05, 500 queries, 3 from the holdout")
for route, words in {
    "best": "this library",
    "splitting": "fresh records for every query",
    "dwork2017": "Dwork et al. 2017, Theorem 9",
    "zhao2017": "Zhao 2017, Theorem 2",
}.items():
    print(f"  {words:34}{plan_holdout(**goal, route=route):14,}")

# %%
# Correlation multiplies all of this. On the left, the same goal for independent records, patients
# with five rows each, and records in time that change their state every ten or every hundred
# steps. On the right, what each answer from the holdout costs.

correlations = {
    "state lasts 100 records": [[0.99, 0.01], [0.01, 0.99]],
    "state lasts 10 records": [[0.9, 0.1], [0.1, 0.9]],
    "five rows per patient": Groups(np.repeat(np.arange(200), 5)),
    "independent": None,
}
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
# Counting transcripts is the best route here (see "proved by" above); naming it saves the search.
PlanDisplay.from_estimates(
    [0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2],
    correlations,
    n_queries=500,
    budget=3,
    route="transcript",
    n_available=100_000,
    ax=left,
)

chained = [
    certify(
        100_000,
        correlation=correlations["state lasts 10 records"],
        n_queries=500,
        budget=budget,
        route="transcript",
    )
    for budget in budgets
]
# The same colours and markers as on the left.
for name, certificates, line in (
    ("state lasts 10 records", chained, {"color": "#D55E00", "marker": "s", "ls": "--"}),
    ("independent", by_budget, {"color": "#009E73", "marker": "D", "ls": "-."}),
):
    right.plot(budgets, [min(c.tau, 0.5) for c in certificates], label=name, **line)
    right.plot(budgets, [c.threshold for c in certificates], color=line["color"], lw=0.8, ls=":")
right.plot([], [], color="grey", lw=0.8, ls=":", label="their thresholds")
right.axhline(0.5, color="grey", lw=1)
right.text(1, 0.485, "vacuous", va="top", color="grey", fontsize="small")
right.set(xscale="log", ylim=(0, 0.54), xlabel="answers from the holdout (budget)")
right.set(ylabel="certified error of every answer", title="100,000 records, 500 queries")
right.set_xticks(budgets, budgets)
right.set_xticks([], minor=True)
right.grid(alpha=0.3)
right.legend(frameon=False, fontsize="small")

folder.mkdir(parents=True, exist_ok=True)
figure.savefig(folder / "plot_planning.png", dpi=150)
