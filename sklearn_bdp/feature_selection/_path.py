"""The path of a selection as the analyst sees it: released values, in score units."""

import math

import numpy as np

from sklearn_bdp.feature_selection._stepwise import LEVEL


def accuracy_path(steps, units, metric):
    """Return ``accuracy_path_``: one entry per step in each array, in score units."""
    rows = [_row(step, units, metric) for step in steps]
    path = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if name in ("features", "feature"):  # tuples of one length are no matrix
            path[name] = np.empty(len(values), dtype=object)
            path[name][:] = values
        else:
            path[name] = np.array(values)
    return path


def _row(step, units, metric):
    """Return one row of the table."""
    found, paired, gain = step.assessment, step.paired, step.gain
    columns = units.columns(step.chosen)
    width, nan = metric.upper - metric.lower, math.nan
    chance = nan if paired is None else width * paired.chance(step.n_candidates, LEVEL)

    def score(value):
        return nan if found is None else float(metric.from_unit(getattr(found, value)))

    def difference(value):
        return nan if gain is None else width * getattr(gain, value)

    return {
        "action": step.action,
        "feature": "" if step.unit is None else units.label(step.unit),
        "n_features": len(columns),
        "features": columns,
        "n_candidates": step.n_candidates,
        "training_score": score("training"),
        "holdout_score": score("released"),
        "holdout_lower": score("lower"),
        "holdout_upper": score("upper"),
        "answered_from": "unanswered" if found is None else found.source,
        "training_gain": nan if paired is None else width * paired.gain,
        "chance_gain": chance,
        "gain": difference("released"),
        "gain_lower": difference("lower"),
        "gain_upper": difference("upper"),
    }


def describe_step(step, units, verifier):
    """Return one line about a step; it holds released values only."""
    row = _row(step, units, verifier.setting.metric)
    what = {"start": "start", "add": "added ", "remove": "removed "}[step.action]
    what += repr(row["feature"]) if step.unit is not None else ""
    line = (
        f"{what}: {row['n_features']} feature(s), verified score {row['holdout_score']:.4g} "
        f"[{row['holdout_lower']:.4g}, {row['holdout_upper']:.4g}]"
    )
    if step.gain is not None:
        line += f", gain {row['gain']:+.4g} [{row['gain_lower']:+.4g}, {row['gain_upper']:+.4g}]"
    if step.action != "start":
        line += f", best of {step.n_candidates} ({verifier.n_recorded} answered before)"
    return f"{line}; {verifier.holdout.information_spent:.1f} nats spent"
