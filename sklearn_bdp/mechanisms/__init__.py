"""Mechanisms: state machines between an analyst and the holdout.

They see numbers only, no data and no files; see ``doc/developers/mechanisms.md``.
"""

from sklearn_bdp.mechanisms.thresholdout import Answers, Thresholdout

__all__ = ["Answers", "Thresholdout"]
