"""Keys of queries do not follow names in the code, so that recorded answers stay free."""

import json
import subprocess
import sys

#: Digests of metrics, as keys contain them, apart from versions. They must not change.
DIGESTS = {
    "accuracy": "22ada1a4c993",
    "balanced_accuracy": "c0e857a593dd",
    "neg_hamming_loss": "fc2aa9d93112",
    "neg_log_loss": "506b0f7c6037",
    "neg_mean_absolute_error": "32ed58d6cac7",
    "neg_mean_pinball_loss": "4e1adcec5e0f",
    "neg_mean_squared_error": "c9d75e8b5d8c",
    "recall": "2b222ed27c7c",
    "roc_auc": "b8025f87a12c",
    "specificity": "95797d9fd048",
    "top_k_accuracy": "7fc4b0844257",
    "zero_one_loss": "7b7e18ca0c8f",
}
#: Versions are read when the first object is digested.
PRINT_DIGESTS = """
import json
import platform
import sys

import sklearn_bdp

sklearn_bdp.__version__ = "any"
platform.python_version = lambda: "any"

from sklearn_bdp.metrics import get_metric
from sklearn_bdp.utils.hashing import object_digest

digests = {}
for name in sys.argv[1:]:
    options = {"bounds": (-1.0, 1.0)} if name.startswith("neg_mean_") else {}
    digests[name] = object_digest(get_metric(name, **options))[:12]
print(json.dumps(digests))
"""


def test_digests_of_metrics_are_those_of_earlier_code():
    command = [sys.executable, "-c", PRINT_DIGESTS, *DIGESTS]
    process = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(process.stdout) == DIGESTS
