"""Proven limits of the rows in a final report, each by the method that its statement names."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sklearn_bdp.correlation import CorrelationModel
from sklearn_bdp.intervals.concentration import ModelTail
from sklearn_bdp.metrics.proofs import CLASSES, COUNTS, PAST, TAIL, UNIT_INTERVALS
from sklearn_bdp.report.by_class import auc_limits, class_mean_limits
from sklearn_bdp.report.in_time import past_limits
from sklearn_bdp.report.measures import ScoredRecords
from sklearn_bdp.report.plan import Plan, Statement
from sklearn_bdp.report.sampling_units import SamplingUnits

#: Smaller failure probabilities are too near to the smallest number for Clopper-Pearson limits.
_MIN_ALPHA = 1e-290


class ProvenRows:
    """Proven limits of the statements of a plan, in score units."""

    def __init__(
        self, plan: Plan, records: ScoredRecords, units: SamplingUnits, dependence: CorrelationModel
    ) -> None:
        self.plan = plan
        self.records = records
        self.units = units
        self.dependence_model = dependence
        #: Evaluations of metrics by class, by the name of a model and the metric.
        self._evaluations: dict[tuple[str, str], Any] = {}

    def limits(self, statement: Statement, log_alpha: float) -> tuple[float, float]:
        """Return the lower and upper limit of a row in score units.

        ``log_alpha``: log of the failure probability of both limits together. The difference of two
        subgroups, the second minus the first, combines the limits of both. A row with recalls has
        the means of their limits and of the range of recalls of unknown classes.
        """
        if len(statement.subgroups) == 2:  # each subgroup gets half of the failure probability
            first_limits, second_limits = (
                self.limits(statement.in_subgroup(subgroup), log_alpha - math.log(2.0))
                for subgroup in statement.subgroups
            )
            return second_limits[0] - first_limits[1], second_limits[1] - first_limits[0]
        if statement.recalls:  # each recall gets the same part of the failure probability
            log_alpha_of_recall = log_alpha - math.log(len(statement.recalls))
            recall_limits = [
                self.limits(recall, log_alpha_of_recall) for recall in statement.recalls
            ]
            range_of_recall = (0.0 if len(statement.models) == 1 else -1.0, 1.0)
            recall_limits += [range_of_recall] * self.n_unknown_classes(statement)
            lower, upper = np.mean(recall_limits, axis=0).tolist()
            return lower, upper
        if statement.proven == CLASSES:
            return self._limits_by_class(statement, log_alpha)
        if statement.proven == PAST:
            return past_limits(statement, self.records, self.units, self.plan.classes, log_alpha)
        return self._limits_over_units(statement, log_alpha)

    def _limits_over_units(self, statement, log_alpha):
        """Return the limits, in score units, of a ratio of two sums over records.

        Of two models, they are limits of the difference, the second minus the first, with the
        difference of each record clipped to ±``statement.difference_clip``. ``log_alpha``: log of
        the failure probability of both limits together.
        """
        low, high = statement.measure.score_range
        range_length = high - low
        contributions_per_model = self._contributions(statement)
        numerators, denominators = contributions_per_model[-1]
        if len(contributions_per_model) == 2:
            baseline_numerators, _ = contributions_per_model[0]
            scaled_differences = (numerators - baseline_numerators) / statement.difference_clip
            low = -statement.difference_clip * range_length
            range_length = 2.0 * statement.difference_clip * range_length
            # From [-1, 1] to [0, 1], where 1/2 is no difference.
            numerators = 0.5 * (denominators + np.clip(scaled_differences, -1.0, 1.0))
        unit_lower, unit_upper = self._unit_limits(statement, numerators, denominators, log_alpha)
        return low + range_length * unit_lower, low + range_length * unit_upper

    def _contributions(self, statement):
        """Return a list with the numerators and denominators of all records for each model.

        They are arrays of shape (n,), and 0 outside of the subgroup of the statement.
        """
        in_subgroup = self.plan.masks[statement.subgroups[0]] if statement.subgroups else 1.0
        return [
            [
                in_subgroup * values
                for values in self.records.contributions(statement.measure, model_name)
            ]
            for model_name in statement.models
        ]

    def n_unknown_classes(self, statement: Statement) -> int:
        """Return the number of classes of the records without a recall in a row with recalls.

        It is 0 for other rows.
        """
        if not statement.recalls:
            return 0
        known_classes = [recall.measure.pos_label for recall in statement.recalls]
        return len(set(self.records.y.tolist()).difference(known_classes))

    def n_clipped_differences(self, statement: Statement) -> int:
        """Return the number of records whose difference between models the proof clips."""
        (baseline_numerators, _), (numerators, _) = self._contributions(statement)
        differences = np.abs(numerators - baseline_numerators)
        return int(np.count_nonzero(differences > statement.difference_clip))

    def counts(self, statement: Statement) -> list[list[int]]:
        """Return pairs [hits, records in the denominator] behind Clopper-Pearson limits of a row.

        A mean over classes may have a pair for the recall of each class. The pair of an F1 score is
        that of its Jaccard index. The pair of ROC AUC is [positive records, records], of those that
        its limits are computed from. Differences and other rows have none.
        """
        if len(statement.subgroups) == 2 or len(statement.models) == 2:
            return []
        if statement.recalls:
            return [counts for recall in statement.recalls for counts in self.counts(recall)]
        if statement.proven == CLASSES:
            evaluation = self._evaluation(statement)
            is_auc = evaluation.score_inputs is not None and evaluation.shape.kind == "pairs"
            return [self._class_counts(statement)] if is_auc else []
        if statement.proven != COUNTS:
            return []
        numerators, denominators = self._contributions(statement)[0]
        n_hits = round(float(numerators.sum()))
        n_records = round(float(denominators.sum()))
        if getattr(statement.measure.metric, "ratio_kind", "share") == "f1":
            n_hits //= 2  # F1 counts each true positive twice
            n_records -= n_hits
        return [[n_hits, n_records]]

    def _unit_limits(self, statement, numerators, denominators, log_alpha):
        """Return limits in [0, 1] of the ratio of two sums over records.

        ``numerators``, ``denominators``: contribution of each record, of shape (n,). ``log_alpha``:
        log of the failure probability of both limits together.
        """
        metric = statement.measure.metric
        if statement.proven == COUNTS:
            alpha = min(math.exp(log_alpha), 0.5)
            if alpha < _MIN_ALPHA:
                return 0.0, 1.0
            are_iid = self.plan.dependence == "records"
            return metric.count_limits(
                numerators.sum(), denominators.sum(), alpha, identically_distributed=are_iid
            )
        if statement.proven == TAIL:
            is_binary = metric.is_binary and len(statement.models) == 1
            tail = ModelTail(self.dependence_model, len(numerators), binary=is_binary)
            weighted_mean = float(np.mean(self.units.record_weights * numerators))
            means = np.array([min(1.0, weighted_mean)])
            lower, upper = tail.limits(means, means, np.array([log_alpha - math.log(2.0)]))
            return float(lower[0]), float(upper[0])
        unit_interval = UNIT_INTERVALS[statement.proven]
        return unit_interval(
            self.units.totals(numerators),
            self.units.totals(denominators),
            bound=getattr(metric, "record_bound", 1.0) * self.plan.max_group_records,
            moments=statement.moments,
            log_inverse_alpha=math.log(2.0) - log_alpha,
        )

    def _limits_by_class(self, statement, log_alpha):
        """Return limits of ROC AUC or of a mean over classes in [0, 1] (theory G12, G19, G36).

        ``log_alpha``: log of the failure probability of both limits together.
        """
        evaluation = self._evaluation(statement)
        positions = self._drawn_positions(statement)
        if evaluation.score_inputs is not None and evaluation.shape.kind == "pairs":
            return auc_limits(
                evaluation.score_inputs,
                positions,
                log_alpha,
                statement.moments,
                bets=not self.plan.dependence.startswith("stratified"),
            )
        n = len(self.records.y)
        return class_mean_limits(
            evaluation, positions, log_alpha, dependence=self.dependence_model, n=n
        )

    def _drawn_positions(self, statement):
        """Return positions of one drawn record per unit, without those outside of the subgroup."""
        positions = self.units.one_record_of_each
        if statement.subgroups:
            in_subgroup = self.plan.masks[statement.subgroups[0]] > 0.0
            positions = positions[in_subgroup[positions]]
        return positions

    def _class_counts(self, statement):
        """Return [positive records, all records] of those that limits of AUC are computed from."""
        positions = self._drawn_positions(statement)
        is_positive = self._evaluation(statement).score_inputs.class_index[positions] == 1
        return [int(is_positive.sum()), len(positions)]

    def _evaluation(self, statement):
        """Return the :class:`Evaluation` of a statement's first model on all records, cached."""
        model_name = statement.models[0]
        metric = statement.measure.metric
        key = model_name, repr(metric)
        if key not in self._evaluations:
            model, X = self.records.model_and_data(model_name)
            report_metric, y = metric.for_report(model, self.records.y)
            self._evaluations[key] = report_metric.evaluate(model, X, y)
        return self._evaluations[key]
