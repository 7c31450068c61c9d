"""Time of scikit-learn tools with ``HoldoutScorer``, beside ``scoring="accuracy"``.

The same tool (``cross_validate``, ``GridSearchCV``, …) runs with either scorer in turn, and time is
that of the processor. Besides the usual fits and predictions, ``HoldoutScorer`` lets each model
predict the holdout, makes a key, compares training rows with the holdout, and records the answer.
The limit is 1.5 times the time with ``scoring="accuracy"`` plus 2 ms for each answer; the last
column is our time as a part of that limit.

    python -m benchmarks.bench_scorer [NAME ...] [--runs 5]
"""

import argparse
import statistics
import time
import warnings
from functools import partial

from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    cross_validate,
    learning_curve,
    train_test_split,
    validation_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bdp import HoldoutScorer, ReusableHoldout

#: Limit of our time: a multiple of the time with ``scoring="accuracy"``, and seconds per answer.
MAX_RATIO = 1.5
SECONDS_PER_ANSWER = 0.002
LOGISTIC = make_pipeline(StandardScaler(), LogisticRegression())
MODELS = {
    "logistic regression": LOGISTIC,
    "gradient boosting": HistGradientBoostingClassifier(max_iter=30, random_state=0),
    "forest": RandomForestClassifier(30, random_state=0),
}


def _validate(model, X, y, scoring):
    cross_validate(model, X, y, cv=5, scoring=scoring)


def _learn(model, X, y, scoring):
    learning_curve(model, X, y, cv=5, scoring=scoring)


def _parameter_name(model):
    """Return the parameter that is varied: C of a pipeline, the depth of trees."""
    return "logisticregression__C" if hasattr(model, "steps") else "max_depth"


def _tune(model, X, y, scoring):
    validation_curve(
        model,
        X,
        y,
        param_name=_parameter_name(model),
        param_range=[1, 2, 3, 4, 5],
        cv=5,
        scoring=scoring,
    )


def _grid(search_class, model, X, y, scoring):
    grid = {_parameter_name(model): [1, 2, 3, 4, 5, 6, 7, 8]}
    search_class(model, grid, cv=5, scoring=scoring, refit=False).fit(X, y)


def _importance(model, X, y, scoring):
    permutation_importance(model.fit(X, y), X, y, n_repeats=5, random_state=0, scoring=scoring)


#: Tools of scikit-learn that take ``scoring=``.
TOOLS = {
    "cross_validate": _validate,
    "learning_curve": _learn,
    "validation_curve": _tune,
    "GridSearchCV": partial(_grid, GridSearchCV),
    "HalvingGridSearchCV": partial(_grid, HalvingGridSearchCV),
    "permutation_importance": _importance,
}


def seconds(function, *args):
    """Return the processor time of one call."""
    start = time.process_time()
    function(*args)
    return time.process_time() - start


def measure(tool, model, data, runs):
    """Return median seconds with accuracy and with our scorer, their ratio, and our answers."""
    X, X_holdout, y, y_holdout = data
    plain_times = []
    our_times = []
    n_answers = 0
    for _ in range(runs):
        plain_times.append(seconds(tool, clone(model), X, y, "accuracy"))
        holdout = ReusableHoldout(X_holdout, y_holdout)
        our_times.append(seconds(tool, clone(model), X, y, HoldoutScorer(holdout, "accuracy")))
        n_answers = len(holdout.history())
    ratio = statistics.median(
        our_time / plain_time for plain_time, our_time in zip(plain_times, our_times, strict=True)
    )
    return statistics.median(plain_times), statistics.median(our_times), ratio, n_answers


def main():
    """Print one line for each tool and model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", choices=[[], *TOOLS], default=[], help="tools; by default all"
    )
    parser.add_argument(
        "--models", nargs="*", choices=list(MODELS), default=list(MODELS), help="only these models"
    )
    parser.add_argument("--records", type=int, default=1000, help="number of training records")
    parser.add_argument("--runs", type=int, default=5, help="repetitions of each measurement")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    X, y = make_classification(options.records * 4 // 3, 20, random_state=0)
    data = train_test_split(X, y, test_size=0.25, random_state=0)
    head = ("answers", "plain s", "ours s", "ratio", "ms an answer", "of the limit")
    print(f"{'client, model':46}" + "".join(f"{name:>13}" for name in head))
    for name in options.names or TOOLS:
        for model_name in options.models:
            plain_time, our_time, ratio, n_answers = measure(
                TOOLS[name], MODELS[model_name], data, options.runs
            )
            extra_milliseconds = 1e3 * (our_time - plain_time) / n_answers
            limit = MAX_RATIO * plain_time + SECONDS_PER_ANSWER * n_answers
            print(
                f"{f'{name}, {model_name}':46}{n_answers:13}{plain_time:13.3f}{our_time:13.3f}"
                f"{ratio:13.2f}{extra_milliseconds:13.2f}{our_time / limit:13.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
