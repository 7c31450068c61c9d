"""Checks against careless use: their inputs and their messages (theory G21).

Checks that read the training set or released values are free. The check that reads the holdout
reports at most one of a few findings, which is recorded and charged.
"""
