"""MLflow's autologging of a verified search: one run with what was released, and none for fits."""

import contextlib
import math
import sys

#: Candidates with a run of their own, the best first; the number that MLflow uses for searches.
_CHILDREN = 5


@contextlib.contextmanager
def autologged(search):
    """Log a search that is fitted in this block, where MLflow's autologging is switched on.

    MLflow patches ``fit`` of scikit-learn's own classes. Left alone it would log the parameters of
    the first candidate as those of the run, and a run for each of the others.
    """
    tools = sys.modules.get("mlflow.utils.autologging_utils")
    if tools is None or tools.autologging_is_disabled("sklearn"):
        yield
        return
    with tools.disable_autologging():
        yield
    if hasattr(search, "best_params_"):
        _log(search, sys.modules["mlflow"])


def _log(search, mlflow):
    """Log best parameters and released scores; a child run for each of the best candidates."""
    inside = mlflow.active_run() is not None
    with contextlib.nullcontext() if inside else mlflow.start_run():
        mlflow.set_tag("estimator_name", type(search).__name__)
        mlflow.log_params({f"best_{name}": value for name, value in search.best_params_.items()})
        mlflow.log_metrics(_released(search.cv_results_, search.best_index_, prefix="best_"))
        mlflow.log_text(str(search.certificate_), "certificate.txt")
        ranked = sorted(range(len(search.cv_results_["params"])), key=_rank(search.cv_results_))
        for place in ranked[:_CHILDREN]:
            with mlflow.start_run(nested=True):
                mlflow.log_params(search.cv_results_["params"][place])
                mlflow.log_metrics(_released(search.cv_results_, place))


def _rank(results):
    ranks = next(column for name, column in results.items() if name.startswith("rank_holdout"))
    return lambda place: int(ranks[place])


def _released(results, place, *, prefix=""):
    """Return the cross-validated and the released numbers of one candidate."""
    return {
        prefix + name: float(column[place])
        for name, column in results.items()
        if name.startswith(("mean_test", "holdout_"))
        and isinstance(column[place], float)
        and math.isfinite(column[place])
    }
