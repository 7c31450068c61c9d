"""Confidence limits: one module for each family of bounds; numpy and scipy only."""

from sklearn_bdp.intervals.bounds import past_limits, past_lower_limit
from sklearn_bdp.intervals.concentration import Tail, score_tail

__all__ = ["Tail", "past_limits", "past_lower_limit", "score_tail"]
