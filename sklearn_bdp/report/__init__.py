"""The final report of a holdout: plan, validate, record, estimate, render."""

from sklearn_bdp.report.final_report import FinalReport

__all__ = ["FinalReport"]
