"""
===================================================
Two modes, one timetable: regimes that are public
===================================================

A sorting machine runs in one of two modes, for days at a time, and a timetable lists them. A
classifier of its parcels does well in the first mode and hardly better than a coin in the second,
so its accuracy over any one month depends on the modes of that month. If you declare the records
independent, the interval is narrow and misses the truth. If you declare a hidden chain, the
interval is correct and very wide. If the mode of every record is public, there is a third way:
weigh the modes by how often they come in the long run. Dependence then costs nothing.
"""

# %%
# ``states`` are known without looking at the records: here the timetable, elsewhere day or night,
# term or holidays, the published phase of the market. States *decoded* from the records are not.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from simulated import make_regimes
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovChain

modes = np.array([[0.995, 0.005], [0.01, 0.99]])  # in the long run two thirds, one third
past, later, machines = 4_000, 1_500, 12

# %%
# Twelve machines with a log each. The past of a log is for training; the later records are the
# holdout, under three declarations. A hidden chain needs a gap between past and holdout;
# given the modes no gap is needed. ``population_accuracy`` is what only a simulator knows.


def verified(log, correlation, gap=0):
    """Search on the past of a log; return the interval of the best model, and the model."""
    held_out = slice(past + gap, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "declare the dependence", "this holdout is small": yes
        holdout = ReusableHoldout(
            log.X[held_out], log.y[held_out], correlation=correlation, gap=gap or None
        )
        search = ReusableHoldoutSearchCV(
            LogisticRegression(), {"C": [0.001, 0.03, 1.0]}, holdout=holdout
        ).fit(log.X[:past], log.y[:past])
    return search.best_interval_, search.best_estimator_


chain = MarkovChain(modes)
names = ("independent", "hidden chain", "public modes")
intervals = np.empty((len(names), machines, 2))
truths, shares = np.empty(machines), np.empty(machines)
for machine in range(machines):
    log = make_regimes(past + later, modes, separation=[2.5, 0.2], random_state=machine)
    intervals[0, machine], _ = verified(log, None)
    intervals[1, machine], _ = verified(log, chain, gap=chain.gap_for(0.001))
    public = MarkovChain(modes, states=log.states[past:])
    intervals[2, machine], model = verified(log, public)
    truths[machine] = log.population_accuracy(model.coef_, model.intercept_)
    shares[machine] = np.mean(log.states[past:] == 0)

holds = (intervals[:, :, 0] <= truths) & (truths <= intervals[:, :, 1])
print(f"truth: accuracies {truths.min():.3f} to {truths.max():.3f} in the long run")
for name, kept, ends in zip(names, holds, intervals, strict=True):
    half = np.diff(ends).mean() / 2
    print(f"{name:<14} ±{half:.3f}, holds for {kept.sum():>2} of {machines} machines")

# %%
# All twelve months, ordered by how much of the easy mode they got. A score that declares the
# records independent follows that share. The post-stratified score does not, because it weighs the
# modes by the long run.

order = np.argsort(shares)
figure, ax = plt.subplots(figsize=(7, 4.8), layout="constrained")
for row, (color, name) in enumerate(zip(("#D55E00", "0.75", "#009E73"), names, strict=True)):
    low, high = intervals[row, order].T - truths[order]
    place = np.arange(machines) + 0.22 * (row - 1)
    ax.vlines(place, low, high, color=color, lw=4, label=f"{name}: {holds[row].sum()} correct")
ax.axhline(0, color="black", ls="--", lw=1)
ax.set_xticks(range(machines), [f"{share:.0%}" for share in shares[order]], fontsize="small")
ax.set(xlabel="part of the month in the easy mode (two thirds in the long run)",
       ylabel="interval less true accuracy", ylim=(-0.32, 0.17))  # fmt: skip
ax.set_title("Twelve months, three declarations")
ax.legend(fontsize="small", loc="lower left", title="intervals (gray ones go on below)")
ax.grid(axis="y", alpha=0.3)

# %%
# One month of one machine: the average of its hits drifts towards wherever the machine happens to
# be, and stays there for hundreds of records.

figure, ax = plt.subplots(figsize=(7, 4.8), layout="constrained")
hits = model.predict(log.X[past:]) == log.y[past:]
window = 50
ax.fill_between(
    np.arange(later), 0, 1, where=log.states[past:] == 1, color="0.9", step="mid",
    label="hard mode, by the timetable",
)  # fmt: skip
ax.plot(np.arange(window - 1, later), np.convolve(hits, np.ones(window) / window, "valid"),
        color="#0072B2", lw=1.5, label=f"accuracy of the last {window} records")  # fmt: skip
ax.axhline(truths[-1], color="black", ls="--", lw=1, label="true accuracy, in the long run")
ax.set(xlabel="record of the holdout", ylabel="accuracy", xlim=(0, later), ylim=(0.3, 1.02))
ax.set_title("One month of one machine")
ax.legend(frameon=False, fontsize="small", loc="lower left")
plt.show()
