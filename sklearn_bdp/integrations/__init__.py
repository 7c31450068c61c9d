"""Other tools around the holdout; each module needs the package it is named for."""

__all__ = []
