"""
An Optuna study on one holdout
==============================

A sampler that looks at the values of earlier trials is an adaptive analyst: it goes where the
holdout was kind. Two studies tune the same trees with the same sampler and 1,000 holdout records.
One takes its values raw: how much of its best value is luck, is unknown. The other asks
through :class:`~sklearn_bdp.integrations.optuna.HoldoutObjective`: its ten startup trials are one
batch, each later trial is a query of its own, trials that look weak in cross-validation are pruned
and cost nothing, and every value has an interval that holds together with all others.
"""

# %%
# The data: a fifth of the labels is noise, and new records show what a model is worth.

import matplotlib.pyplot as plt
import numpy as np
import optuna
from sklearn.datasets import make_classification
from sklearn.tree import ExtraTreeClassifier

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.integrations.optuna import HoldoutObjective

optuna.logging.set_verbosity(optuna.logging.WARNING)

X, y = make_classification(
    12_000, 20, n_informative=6, n_redundant=0, flip_y=0.2, class_sep=0.8, random_state=0
)
train, held, fresh = slice(0, 2_000), slice(2_000, 3_000), slice(3_000, None)
N_TRIALS = 60


def build(trial):
    """Return the model that a trial suggests."""
    return ExtraTreeClassifier(
        max_depth=trial.suggest_int("max_depth", 2, 12),
        min_samples_leaf=trial.suggest_int("min_samples_leaf", 1, 40),
        max_features=trial.suggest_float("max_features", 0.1, 1.0),
        random_state=trial.suggest_int("seed", 0, 99),
    )


def truth(params):
    """Return the accuracy on new records of a model fitted on the training set."""
    model = build(optuna.trial.FixedTrial(params)).fit(X[train], y[train])
    return model.score(X[fresh], y[fresh])


def new_study():
    """Return a study to be maximized, the same for both analysts."""
    return optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=0, n_startup_trials=10)
    )


# %%
# The careless study: its value is the raw holdout score.

careless = new_study()
careless.optimize(
    lambda trial: build(trial).fit(X[train], y[train]).score(X[held], y[held]), N_TRIALS
)

# %%
# The verified study.

verified = new_study()
holdout = ReusableHoldout(X[held], y[held], random_state=0)
objective = HoldoutObjective(build, X[train], y[train], holdout=holdout)
objective.optimize(verified, N_TRIALS, n_startup_trials=10)

complete = [trial for trial in verified.trials if trial.state.name == "COMPLETE"]
attributes = verified.best_trial.user_attrs
print(f"careless: best value {careless.best_value:.3f}, truth {truth(careless.best_params):.3f}")
print(
    f"verified: best value {verified.best_value:.3f} in [{attributes['holdout_lower']:.3f}, "
    f"{attributes['holdout_upper']:.3f}], truth {truth(verified.best_params):.3f}; "
    f"{len(complete)} of {N_TRIALS} trials asked, {N_TRIALS - len(complete)} pruned for free"
)

# %%
# Values against the truth, in the order of the trials: verified first, then the raw ones.


def draw(study, title, *, intervals):
    """Draw the values of a study beside the accuracy on new records."""
    trials = [trial for trial in study.trials if trial.state.name == "COMPLETE"]
    number = np.array([trial.number for trial in trials])
    _, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    if intervals:
        ends = [[t.user_attrs[f"holdout_{end}"] for t in trials] for end in ("lower", "upper")]
        ax.vlines(number, *ends, color="#D55E00", lw=1, alpha=0.5)
    value = [trial.value for trial in trials]
    ax.plot(number, value, "s", ms=4, color="#D55E00", label="value of the trial")
    truths = [truth(trial.params) for trial in trials]
    ax.plot(number, truths, "o", ms=4, mfc="none", color="#0072B2", label="accuracy, new records")
    ax.plot(study.best_trial.number, study.best_value, "*", ms=15, mfc="white", mec="black")
    ax.set(title=title, xlabel="trial", ylabel="accuracy", ylim=(0.4, 1.0))
    ax.grid(alpha=0.3, lw=0.5)
    ax.legend(frameon=False, loc="lower right")


draw(verified, "Verified values with intervals", intervals=True)

# %%
draw(careless, "Raw values", intervals=False)
plt.show()
