"""One candidate: split, folds, open a holdout, fit, score, digest; for searches and selectors."""
