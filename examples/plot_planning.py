"""
======================================================
Before the data arrive: threshold, noise, budget, size
======================================================

How many records must be set aside, and what will they guarantee? :func:`~sklearn_bdp.certify`
answers for a holdout you have, :func:`~sklearn_bdp.plan_holdout` for one you want. Both speak
about the worst case over every analyst who asks up to ``n_queries`` queries one by one and gets
up to ``budget`` of them answered from the holdout, so their numbers are sober.
"""

# %%
# What 20,000 records guarantee for 500 queries. A certificate lists its assumptions and what
# would make it better.

import matplotlib.pyplot as plt
import numpy as np

from sklearn_bdp import certify, plan_holdout
from sklearn_bdp.correlation import Groups

print(certify(20_000, n_queries=500, budget=3))

# %%
# **Budget.** Each answer from the holdout gives something away, and the guarantee must be made for
# every way in which that may be used. The threshold follows: it is the overfitting that is worth
# an answer, as low as the error allows.

print("\nbudget  threshold  certified error  (100,000 records, 500 queries)")
budgets = (1, 3, 10, 30, 100)
by_budget = [certify(100_000, n_queries=500, budget=budget) for budget in budgets]
for certificate in by_budget:
    print(f"{certificate.budget:6}  {certificate.threshold:9.3f}  {certificate.tau:15.3f}")

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
# **Size.** The records that an error needs grow with its inverse square. New records for each query
# and the theorems of the papers need far more: ``python -m benchmarks.compare_guarantees`` prints
# their numbers beside these.

print("\nerror   records (500 queries, 3 answered from the holdout)")
for tau in (0.1, 0.05, 0.025):
    print(f"±{tau:<6}{plan_holdout(tau=tau, n_queries=500, budget=3):8,}")

# %%
# Correlation multiplies all of this. The same goal for independent records, patients with five rows
# each, and records in time that change their state every ten or every hundred steps. (Counting
# transcripts is the best route here, see "proved by" above. Naming it saves the search.)

correlations = {
    "state lasts 100 records": [[0.99, 0.01], [0.01, 0.99]],
    "state lasts 10 records": [[0.9, 0.1], [0.1, 0.9]],
    "five rows per patient": Groups(np.repeat(np.arange(200), 5)),
    "independent": None,
}
errors = [0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2]
goal = {"n_queries": 500, "budget": 3, "route": "transcript"}
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for (name, correlation), marker in zip(correlations.items(), "os^D", strict=True):
    records = [plan_holdout(tau=tau, correlation=correlation, **goal) for tau in errors]
    ax.loglog(errors, records, marker=marker, label=name)
ax.axhline(100_000, color="grey", ls=":", label="100,000 records")
ax.set_xticks(errors, errors)
ax.set_xticks([], minor=True)
ax.set(xlabel="certified error", ylabel="holdout records", title="Records that an error needs")
ax.grid(alpha=0.3)
ax.legend(frameon=False, fontsize="small")

# %%
# What each answer from the holdout costs.

chain = correlations["state lasts 10 records"]
chained = [
    certify(100_000, correlation=chain, n_queries=500, budget=budget, route="transcript")
    for budget in budgets
]
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for name, certificates in {"state lasts 10 records": chained, "independent": by_budget}.items():
    (line,) = ax.plot(budgets, [min(c.tau, 0.5) for c in certificates], "o-", label=name)
    ax.plot(budgets, [c.threshold for c in certificates], color=line.get_color(), lw=0.8, ls=":")
ax.plot([], [], color="grey", lw=0.8, ls=":", label="their thresholds")
ax.axhline(0.5, color="grey", lw=1, label="vacuous")
ax.set(xscale="log", ylim=(0, 0.54), xlabel="answers from the holdout (budget)")
ax.set(ylabel="certified error of every answer", title="100,000 records, 500 queries")
ax.set_xticks(budgets, budgets)
ax.set_xticks([], minor=True)
ax.grid(alpha=0.3)
ax.legend(frameon=False, fontsize="small")
plt.show()
