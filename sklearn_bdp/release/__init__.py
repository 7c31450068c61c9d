"""Answers to batches of queries, by mechanism and ledger, and the certificate of a holdout."""
