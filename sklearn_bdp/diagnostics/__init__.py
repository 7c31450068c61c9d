"""Checks against careless use: their inputs and their messages (theory G21).

Guards that read the training set are free. Guards that read the holdout report one of a few
words, which is recorded and charged.
"""
