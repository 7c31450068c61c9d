"""
==================================================
A level of privacy for the whole life of a holdout
==================================================

Where a holdout must stay Bayesian differentially private at a level epsilon for as
long as it lives, noise answers for the level, and leakage bounds what the analyst can have learned
(G1). The code of what was released (G7) bounds the same. Both hold side by side, and every answer
uses the shorter one (G9): with few corrections the code, with many the leakage.
"""

# %%
# A hundred thousand records, a level of 0.02, ten answers from the holdout at most. Every model
# overfits: its cross-validated score is off by 0.1 to 0.3, so each question spends one of the ten.
# The same questions go to a holdout without a level.

import matplotlib.pyplot as plt
import numpy as np

from sklearn_bdp import ReusableHoldout

n, budget = 100_000, 10
X, y = np.zeros((n, 1)), np.zeros(n)
with_level = ReusableHoldout(X, y, epsilon=0.02, budget=budget, random_state=0)
without_level = ReusableHoldout(X, y, random_state=0)

rng, nats = np.random.default_rng(1), []
for _ in range(budget):
    scores = (rng.random(n) < 0.5).astype(int)
    overfit = scores.mean() + rng.uniform(0.1, 0.3) * rng.choice([-1.0, 1.0])
    for holdout in (with_level, without_level):
        holdout.answer([overfit], scores[np.newaxis])
    nats.append((with_level.next_code_length, without_level.next_code_length))

# %%
# What the next answer pays grows without end by the code, and hardly any more by leakage.
figure, ax = plt.subplots(figsize=(6, 3.5))
query_counts = np.arange(1, budget + 1)
ax.plot(
    query_counts,
    [information_spent for _, information_spent in nats],
    "o-",
    label="no level: the code alone",
)
ax.plot(
    query_counts,
    [information_spent for information_spent, _ in nats],
    "s-",
    label=r"$\varepsilon$ = 0.02 for life",
)
ax.set(xlabel="overfit queries so far", ylabel="nats that the next answer pays")
ax.legend()
figure.tight_layout()

# %%
# The certificate shows which of the two determines the next answer. The price of the level is the
# noise: intervals are wide here, and a level is asked for where privacy is needed, not for width.
print(with_level.certificate())

plt.show()
