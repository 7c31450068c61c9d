"""What a search keeps while it runs."""

import gc
import warnings

import pytest
from sklearn.datasets import make_friedman1
from sklearn.linear_model import Ridge

from sklearn_bdp import HoldoutConfig, ReusableHoldoutSearchCV
from sklearn_bdp._evaluation import FoldJob, ModelStore, Verifier


def test_a_store_gives_every_model_back_and_closes_its_file():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        store = ModelStore()
        for row in range(4):
            store.put(row, {"model": row}, guess=row / 4, repeatable=False)
        assert [store.get(row) for row in range(4)] == [{"model": row} for row in range(4)]
        file = store._file
        del store
        gc.collect()
        assert file.closed


def test_the_variance_of_scores_outlives_an_interruption(tmp_path):
    """G15: fits that a ledger kept come with the sums of their scores."""
    data = make_friedman1(600, random_state=0)
    made = {"random_state": 0}
    first = ReusableHoldoutSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, **made).fit(*data)
    path = tmp_path / "ledger.db"
    interrupted = ReusableHoldoutSearchCV(
        Ridge(), {"alpha": [0.1, 1.0]}, holdout=HoldoutConfig(ledger=path), **made
    )
    verify = Verifier.assess
    try:
        Verifier.assess = stop
        with pytest.raises(KeyboardInterrupt):
            interrupted.fit(*data)
    finally:
        Verifier.assess = verify
    interrupted.fit(*data)
    assert interrupted.best_interval_ == pytest.approx(first.best_interval_)


def stop(*args, **options):
    raise KeyboardInterrupt


def test_a_finished_search_is_not_fitted_again_by_another_process(tmp_path, monkeypatch):
    data = make_friedman1(300, random_state=0)
    runs = []
    run = FoldJob.run
    monkeypatch.setattr(FoldJob, "run", lambda *a: runs.append(a) or run(*a))

    def again(**changes):
        made = {"cv": 3, "holdout": HoldoutConfig(ledger=tmp_path / "ledger.db"), **changes}
        model = made.pop("model", Ridge())
        runs.clear()
        return ReusableHoldoutSearchCV(model, {"alpha": [0.1, 1.0]}, **made).fit(*data)

    first = again()
    assert len(runs) == 6
    second = again()
    assert len(runs) <= 3  # scores of single records, for the check of dependence
    assert second.best_interval_ == first.best_interval_
    assert (second.cv_results_["mean_test_score"] == first.cv_results_["mean_test_score"]).all()
    again(model=Ridge(fit_intercept=False))
    assert len(runs) >= 6


def test_a_last_word_forgets_nothing_that_was_known():
    """All intervals hold at once: the report is never wider than the search's own."""
    search = ReusableHoldoutSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, random_state=0)
    search.fit(*make_friedman1(600, random_state=0))
    report = search.final_report()
    assert report.lower >= search.best_interval_[0]
    assert report.upper <= search.best_interval_[1]
