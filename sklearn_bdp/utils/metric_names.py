"""Names of the bounded metrics, and how their scores vary."""

BINARY = ("accuracy", "neg_zero_one_loss", "top_k_accuracy", "zero_one_loss")  # means of 0 and 1
MEANS = (
    "neg_brier_score",
    "neg_hamming_loss",
    "neg_log_loss",
    "neg_mean_absolute_error",
    "neg_mean_pinball_loss",
    "neg_mean_squared_error",
)
BY_CLASS = ("balanced_accuracy", "recall", "roc_auc", "specificity")  # not means over records
NAMES = tuple(sorted((*BINARY, *MEANS, *BY_CLASS)))
