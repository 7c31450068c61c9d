"""Releasing answers of a holdout: one batch through mechanism, ledger and certificate."""
