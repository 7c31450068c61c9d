"""Checks against careless use: their inputs and their messages (theory G21).

Checks that read the training set or released values are free. The comparison of training data with
the holdout reports at most one of a few findings. Its outcome is recorded and charged.
"""
