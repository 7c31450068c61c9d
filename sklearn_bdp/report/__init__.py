"""The final report of a holdout: plan, validate, note the start, compute, close, render."""

from sklearn_bdp.report.final_report import FinalReport

__all__ = ["FinalReport"]
