"""Use an installed wheel as a new user would: ``python .ci/smoke.py`` in a bare environment."""

import importlib.metadata
import sys
import sysconfig
import tempfile
from pathlib import Path

from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sklearn_bdp
from sklearn_bdp import HoldoutConfig, ReusableHoldoutSearchCV


def main():
    """Search twice with a ledger in a file, report once, and check the interval."""
    site_packages = Path(sysconfig.get_path("purelib"))
    if site_packages not in Path(sklearn_bdp.__file__).parents:
        return f"sklearn_bdp was imported from {sklearn_bdp.__file__}, not from the wheel"
    X, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"logisticregression__C": [0.1, 1.0]}
    with tempfile.TemporaryDirectory() as folder:
        config = HoldoutConfig(ledger=str(Path(folder) / "holdout.sqlite"))
        search = ReusableHoldoutSearchCV(model, grid, holdout=config).fit(X, y)
        again = ReusableHoldoutSearchCV(model, grid, holdout=config).fit(X, y)
        recorded = search.cv_results_["holdout_score"]
        if list(again.cv_results_["holdout_score"]) != list(recorded):
            return "the second search did not find the recorded scores"
        report = again.final_report()
        again.holdout_.close()
        search.holdout_.close()
    if not 0.0 < report.lower < report.value < report.upper <= 1.0:
        return f"the report has the interval [{report.lower}, {report.upper}]"
    version = importlib.metadata.version("sklearn-bdp")
    interval = f"[{report.lower:.3f}, {report.upper:.3f}]"
    print(f"sklearn_bdp {version}: accuracy {report.value:.3f} {interval}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
