"""Coverage and half-width of both families of rows in a final report, for data of known truth.

Four adaptive searches of twenty candidates on one holdout; the report is about the candidate they
select. Nothing is fitted: candidates are noisy views of a signal. Searches choose by the verified
scores of the library's own rules, and each row is made at the level of a report of one statement
after them (theory G17, G28). Beside it are two usual procedures. *One look*: cross-validation
selects, and the holdout is used once, at 95% (DeLong for AUC of records, else a bootstrap of units,
which in time ignores that dates depend on each other). *Two test sets*: one half of the holdout
selects, the other reports. Figures are means over replications; ± is the binomial margin of a
coverage of 95%. (Proven rows in time are those given the past, theory G26.)

    python -m benchmarks.final_report                    # 6 replications
    python -m benchmarks.final_report --size full        # 400
    python -m benchmarks.final_report --kinds 0 5        # 100 records, 1,000 patients
"""

import argparse
import dataclasses
import math
import warnings

import numpy as np
from scipy.signal import lfilter
from scipy.stats import norm, rankdata

from sklearn_bdp.accounting.spending import final_code_length
from sklearn_bdp.intervals.bounds import betting_interval, clopper_pearson_interval, unit_moments
from sklearn_bdp.intervals.jackknife import approximate_row
from sklearn_bdp.metrics.registry import statistic_of

try:
    from benchmarks.simulate_year import Account, Choice
except ImportError:  # run as a script
    from simulate_year import Account, Choice

REPLICATIONS = {"small": 6, "full": 400}
KINDS = [("records", n) for n in (100, 300, 1000)]
KINDS += [("patients", n) for n in (75, 250, 1000)] + [("time", 3000)]
#: Correlations of candidates with the signal, and that of the baseline.
QUALITIES = np.linspace(0.5, 0.8, 7)
BASELINE_QUALITY = 0.6
PREVALENCE = 0.3
N_SEARCHES = 4
N_CANDIDATES = 20
#: Autocorrelation of consecutive dates.
AUTOCORRELATION = 0.6
#: Records whose signal and error sum to more than this are of class 1.
LABEL_CUT = norm.isf(PREVALENCE) * math.hypot(1.0, 0.8)
#: Statistic of each metric, and the form of predictions that it takes.
METRICS = {
    "AUC": (statistic_of("roc_auc"), "scores"),
    "average precision": (statistic_of("average_precision"), "scores"),
    "accuracy": (statistic_of("accuracy"), "labels"),
    "recall": (statistic_of("recall"), "labels"),
    "precision": (statistic_of("precision"), "labels"),
    "F1": (statistic_of("f1"), "labels"),
    "Brier": (statistic_of("neg_brier_score"), "chances"),
    "log loss": (statistic_of("neg_log_loss"), "chances"),
    "net benefit": (statistic_of("net_benefit_0.3"), "chances"),
    "calibration slope": (statistic_of("calibration_slope"), "chances"),
    "R2": (statistic_of("r2"), "values"),
    "MAE": (statistic_of("neg_mean_absolute_error"), "values"),
}
#: Rows of one model, of its difference to the baseline, of a subgroup, and of the gap between the
#: subgroup and its complement; metrics of which they are shown.
METRICS_BY_ROW_KIND = {
    "alone": tuple(METRICS),
    "difference": ("AUC", "accuracy", "Brier", "MAE"),
    "subgroup": ("AUC", "recall", "Brier"),
    "gap": ("AUC", "accuracy"),
}


class Sample:
    """Records, and noisy views of them by candidates.

    Attributes are arrays with one entry per record: ``units`` (number of its sampling unit),
    labels ``y``, real targets ``real_y``, the ``signal`` that candidates see, the noise ``shared``
    by all candidates, ``in_subgroup``, and ``weights``, which sum to 1 within a unit.
    """

    def __init__(self, dependence, size, rng):
        visits = np.ones(size, int)
        unit_effects = rng.normal(size=(3, size))
        if dependence == "patients":  # the ill come more often
            visits += rng.binomial(5, norm.cdf(unit_effects[0]))
        self.units = np.repeat(np.arange(size), visits)
        self.rng = rng
        n_records = len(self.units)
        signal, shared, error = rng.normal(size=(3, n_records))
        if dependence == "patients":
            signal, shared, error = (
                0.7 * unit_effect[self.units] + math.sqrt(0.51) * record_effect
                for unit_effect, record_effect in zip(
                    unit_effects, (signal, shared, error), strict=True
                )
            )
        elif dependence == "time":
            innovation = math.sqrt(1.0 - AUTOCORRELATION**2)
            signal, shared = lfilter(
                [innovation], [1.0, -AUTOCORRELATION], (signal, shared), axis=1
            )
        self.signal = signal
        self.shared = shared
        self.y = (signal + 0.8 * error > LABEL_CUT).astype(int)
        self.real_y = np.exp(0.3 * signal + 0.3 * error)
        self.in_subgroup = (np.arange(size) % 3 > 0)[self.units]  # two thirds of the units
        self.weights = 1.0 / visits[self.units]

    def candidates(self, qualities):
        """Return the latent scores of every record by candidates of these qualities."""
        q = np.asarray(qualities)[:, None]
        noise = self.rng.normal(size=(len(q), len(self.y)))
        return q * self.signal + np.sqrt(1.0 - q**2) * (0.8 * self.shared + 0.6 * noise)

    def accuracies(self, latent):
        """Return the accuracies of candidates as means over units; searches select by them."""
        return ((latent > 1.0) == self.y) @ self.weights / self.weights.sum()

    def part(self, units):
        """Return the sample of some units, and a mask of their records."""
        in_part = np.isin(self.units, units)
        part = object.__new__(Sample)
        for name in ("y", "real_y", "in_subgroup", "weights"):
            setattr(part, name, getattr(self, name)[in_part])
        part.units = np.unique(self.units[in_part], return_inverse=True)[1]
        return part, in_part

    def targets(self, form):
        """Return real targets for predictions of the form "values", labels for all others."""
        return self.real_y if form == "values" else self.y


def predictions(form, latent):
    """Return a candidate's labels, scores, chances or values; all have the same calibration."""
    return {
        "scores": lambda: latent,
        "labels": lambda: (latent > 1.0).astype(int),
        "chances": lambda: norm.cdf((0.65 * latent - LABEL_CUT) / math.sqrt(1.64 - 0.65**2)),
        "values": lambda: np.exp(0.2 * latent + 0.1),
    }[form]()


def sides(row_kind, form, sample, latent, baseline):
    """Return predictions and a mask of records (None: all) for each of the one or two sides.

    The value of a row with two sides is the difference of their scores.
    """
    response = predictions(form, latent)
    in_subgroup = sample.in_subgroup
    return {
        "alone": [(response, None)],
        "difference": [(response, None), (predictions(form, baseline), None)],
        "subgroup": [(response, in_subgroup)],
        "gap": [(response, in_subgroup), (response, ~in_subgroup)],
    }[row_kind]


def row_value(metric, sample, row_sides, weights):
    """Return the value of a row for weighted records."""
    statistic, form = METRICS[metric]
    y = sample.targets(form)
    two_blocks = np.arange(len(y)) % 2  # values without either block are not used
    sign = -1.0 if statistic.is_negated else 1.0
    values = []
    for response, mask in row_sides:
        side_weights = weights if mask is None else weights * mask
        value, _ = statistic.left_out(y, response, side_weights, two_blocks, 2)
        values.append(sign * value)
    return values[0] - values[1] if len(values) == 2 else values[0]


def ratio_terms(metric, sample, response):
    """Return the terms of a metric that is a ratio of sums over records, or None for others.

    These are each record's terms of the numerator and of the denominator, and the largest
    possible term of the denominator.
    """
    y = sample.y
    hit = response == y
    ones = np.ones(len(y))
    if metric in ("accuracy", "recall", "precision"):
        counted = {"accuracy": ones > 0.0, "recall": y == 1, "precision": response == 1}[metric]
        return hit & counted, counted, 1.0
    if metric == "F1":
        return 2 * ((y == 1) & (response == 1)), (y == 1) * 1 + (response == 1), 2.0
    if metric == "Brier":
        return (y - response) ** 2, ones, 1.0
    if metric == "log loss":  # clipped at chances of 1%
        chance = np.clip(np.where(y == 1, response, 1.0 - response), 0.01, 1.0)
        return -np.log(chance) / math.log(100.0), ones, 1.0
    return None


@dataclasses.dataclass(frozen=True)
class Views:
    """A sample with the latent scores of the reported candidate and of the baseline."""

    sample: Sample
    latent: np.ndarray
    baseline: np.ndarray


def _difference_range(metric, form, training):
    """Return a public range of a record's difference to the baseline: 1.5 times the largest one."""
    terms, _, _ = ratio_terms(metric, training.sample, predictions(form, training.latent))
    baseline_terms, _, _ = ratio_terms(
        metric, training.sample, predictions(form, training.baseline)
    )
    return min(1.0, 1.5 * float(np.abs(terms * 1.0 - baseline_terms).max()))


def _unit_sums(metric, row_kind, views, difference_range):
    """Return the sums of the numerator and of the denominator within each unit.

    Differences to the baseline are cut at their range and rescaled to [0, 1].
    """
    form = METRICS[metric][1]
    sample = views.sample
    numerators, denominators, _ = ratio_terms(metric, sample, predictions(form, views.latent))
    if row_kind == "difference":
        baseline_terms, _, _ = ratio_terms(metric, sample, predictions(form, views.baseline))
        differences = numerators * 1.0 - baseline_terms
        cut_differences = np.clip(differences, -difference_range, difference_range)
        numerators = 0.5 * (1.0 + cut_differences / difference_range)
    mask = sample.in_subgroup if row_kind == "subgroup" else 1.0
    weights = sample.weights * mask
    return [np.bincount(sample.units, weights * terms) for terms in (numerators, denominators)]


def proven(metric, row_kind, holdout, training, level):
    """Return the ends of a proven interval, or None if the row has no proof.

    ``holdout`` and ``training`` are :class:`Views`.
    """
    form = METRICS[metric][1]
    is_difference = row_kind == "difference"
    if row_kind == "gap" or form in ("scores", "values"):
        return None
    holdout_terms = ratio_terms(metric, holdout.sample, predictions(form, holdout.latent))
    if holdout_terms is None or (is_difference and metric == "F1"):
        return None
    difference_range = _difference_range(metric, form, training) if is_difference else 1.0
    sums, counts = _unit_sums(metric, row_kind, holdout, difference_range)
    has_one_record_per_unit = len(holdout.sample.units) == holdout.sample.units.max() + 1
    if has_one_record_per_unit and form == "labels" and not is_difference:
        return _share_ends(metric, sums, counts, level)
    ends = betting_interval(
        sums,
        counts,
        bound=holdout_terms[2],
        moments=unit_moments(*_unit_sums(metric, row_kind, training, difference_range)),
        log_inverse_alpha=math.log(2.0 / level),
    )
    if is_difference:
        ends = [difference_range * (2.0 * end - 1.0) for end in ends]
    scale = {"log loss": -math.log(100.0), "Brier": -1.0}.get(metric, 1.0)
    return sorted(scale * end for end in ends)


def _share_ends(metric, sums, counts, level):
    """Return the exact ends of a share of records; F1 has those of Jaccard's share."""
    if metric != "F1":
        return clopper_pearson_interval(round(float(sums.sum())), round(float(counts.sum())), level)
    n_both = sums.sum() / 2
    jaccard_ends = clopper_pearson_interval(int(n_both), int(counts.sum() - n_both), level)
    return [2.0 * end / (1.0 + end) for end in jaccard_ends]


def delong(sample, row_sides):
    """Return DeLong's interval at 95% for an area, or for a difference of two."""
    is_positive = sample.y == 1
    placements = []  # of each side: of positive and of negative records
    for response, _ in row_sides:
        ranks = rankdata(response)
        n_negatives_below = ranks[is_positive] - rankdata(response[is_positive])
        n_positives_below = ranks[~is_positive] - rankdata(response[~is_positive])
        placements.append(
            (n_negatives_below / (~is_positive).sum(), 1.0 - n_positives_below / is_positive.sum())
        )
    positives, negatives = placements[0]
    if len(placements) == 2:
        positives = positives - placements[1][0]
        negatives = negatives - placements[1][1]
    error = math.sqrt(
        positives.var(ddof=1) / positives.size + negatives.var(ddof=1) / negatives.size
    )
    return positives.mean() - 1.96 * error, positives.mean() + 1.96 * error


def bootstrap(metric, sample, row_sides, rng):
    """Return a normal interval at 95% with the error of fifty bootstrap draws of units."""
    n_units = int(sample.units.max()) + 1
    values = []
    for _ in range(50):
        n_draws = np.bincount(rng.integers(0, n_units, n_units), minlength=n_units)
        weights = sample.weights * n_draws[sample.units]
        values.append(row_value(metric, sample, row_sides, weights))
    value = row_value(metric, sample, row_sides, sample.weights)
    return norm.interval(0.95, value, np.nanstd(values))


def jackknife(metric, sample, row_sides, *, level=0.05, times=None):
    """Return the ends of the approximate interval of the library."""
    statistic, form = METRICS[metric]
    interval = approximate_row(
        statistic,
        sample.targets(form),
        row_sides,
        unit_codes=sample.units,
        alpha=level,
        n_autocorrelation_times=times,
    )
    return interval.lower, interval.upper


@dataclasses.dataclass(frozen=True)
class Selected:
    """A selected candidate: index of its quality, and its latent scores of both samples."""

    quality_index: int
    holdout_latent: np.ndarray
    training_latent: np.ndarray


def play_searches(holdout, training, size, rng):
    """Return the candidate that each procedure selects in the searches, and the nats of a report.

    Procedures are ``report`` (verified scores select), ``look`` (cross-validation) and ``two``
    (the first half of the holdout).
    """
    account = Account(size, Choice(), rng)
    in_first_half = np.arange(holdout.units.max() + 1) < size // 2
    first_half_weights = holdout.weights * in_first_half[holdout.units]
    best = 1
    selected = {}
    for _ in range(N_SEARCHES):
        quality_indices = np.clip(best + rng.integers(-1, 2, N_CANDIDATES), 0, len(QUALITIES) - 1)
        holdout_latent = holdout.candidates(QUALITIES[quality_indices])
        training_latent = training.candidates(QUALITIES[quality_indices])
        cv_scores = training.accuracies(training_latent)
        verified_scores, _, _ = account.answer(cv_scores, holdout.accuracies(holdout_latent))
        first_half_scores = ((holdout_latent > 1.0) == holdout.y) @ first_half_weights
        scores_by_procedure = {
            "report": verified_scores,
            "look": cv_scores,
            "two": first_half_scores,
        }
        for procedure, candidate_scores in scores_by_procedure.items():
            index = int(np.argmax(candidate_scores))
            selected[procedure] = Selected(
                int(quality_indices[index]), holdout_latent[index], training_latent[index]
            )
        best = min(selected["report"].quality_index + 1, len(QUALITIES) - 2)
    nats = final_code_length(released=account.released, n_batches=account.batch)
    return selected, nats


def shown_rows():
    """Yield the metric and the kind of each row of the table."""
    for metric in METRICS:
        for row_kind, metrics in METRICS_BY_ROW_KIND.items():
            if metric in metrics:
                yield metric, row_kind


def replication(dependence, size, seed, truth):
    """Return coverage and half-width by metric, kind of row and procedure, and the nats spent.

    Coverage is whether the interval contains the truth, and NaN without an interval.
    """
    rng = np.random.default_rng(seed)
    holdout = Sample(dependence, size, rng)
    training = Sample(dependence, 3 * size, rng)
    times = None
    if dependence == "time":
        times = size * (1.0 - AUTOCORRELATION) / (1.0 + AUTOCORRELATION)
    selected, nats = play_searches(holdout, training, int(times or size), rng)
    baseline = holdout.candidates([BASELINE_QUALITY])[0]
    training_baseline = training.candidates([BASELINE_QUALITY])[0]
    level = 0.05 * math.exp(-nats)
    second_half, in_second_half = holdout.part(np.arange(size // 2, size))
    reported = selected["report"]
    holdout_views = Views(holdout, reported.holdout_latent, baseline)
    training_views = Views(training, reported.training_latent, training_baseline)
    results = {}
    for metric, row_kind in shown_rows():
        form = METRICS[metric][1]
        reported_sides = sides(row_kind, form, holdout, reported.holdout_latent, baseline)
        looked_sides = sides(row_kind, form, holdout, selected["look"].holdout_latent, baseline)
        second_half_sides = sides(
            row_kind,
            form,
            second_half,
            selected["two"].holdout_latent[in_second_half],
            baseline[in_second_half],
        )
        proven_ends = None
        if dependence != "time":
            proven_ends = proven(metric, row_kind, holdout_views, training_views, level)
        has_delong = metric == "AUC" and dependence != "patients"
        if has_delong and row_kind in ("alone", "difference"):
            look_ends = delong(holdout, looked_sides)
        else:
            look_ends = bootstrap(metric, holdout, looked_sides, rng)
        ends_by_family = {
            "approximate": jackknife(metric, holdout, reported_sides, level=level, times=times),
            "proven": proven_ends or (math.nan, math.nan),
            "look": look_ends,
            "two": jackknife(metric, second_half, second_half_sides),
        }
        for family, (low, high) in ends_by_family.items():
            quality_index = selected.get(family, reported).quality_index
            is_covered = math.nan
            if low <= high:
                is_covered = low <= truth[metric, row_kind][quality_index] <= high
            results[metric, row_kind, family] = is_covered, 0.5 * (high - low)
    return results, nats


def truths(dependence):
    """Return the values of every row for all qualities, from a large sample."""
    sample = Sample(dependence, 150_000, np.random.default_rng(0))
    latent = sample.candidates(QUALITIES)
    baseline = sample.candidates([BASELINE_QUALITY])[0]
    values = {}
    for metric, row_kind in shown_rows():
        form = METRICS[metric][1]
        values[metric, row_kind] = [
            row_value(
                metric,
                sample,
                sides(row_kind, form, sample, candidate_latent, baseline),
                sample.weights,
            )
            for candidate_latent in latent
        ]
    return values


def _cell(family, coverages_and_widths):
    """Return coverage and mean half-width of a row's family, and the share without an interval."""
    has_interval = np.isfinite(coverages_and_widths[:, 0])
    cell = f"{'':>18}"
    if has_interval.any():
        coverage, half_width = coverages_and_widths[has_interval].mean(axis=0)
        cell = f"{coverage:>11.1%} ±{half_width:<.3f}"
    if family == "approximate" and not has_interval.all():
        cell += f" ({1 - has_interval.mean():.0%} refused)"
    return cell


def main():
    """Print one table for each kind and size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--size",
        choices=tuple(REPLICATIONS),
        default="small",
        help="number of replications: 6 or 400",
    )
    parser.add_argument("--replications", type=int, help="another number of replications")
    parser.add_argument(
        "--kinds",
        type=int,
        nargs="+",
        default=range(len(KINDS)),
        help="positions, from 0, in the list of data kinds and sizes: "
        + ", ".join(f"{size:,} {dependence}" for dependence, size in KINDS),
    )
    options = parser.parse_args()
    n_replications = options.replications or REPLICATIONS[options.size]
    warnings.simplefilter("ignore")
    truth = {}
    for dependence, size in (KINDS[position] for position in options.kinds):
        truth[dependence] = truth.get(dependence) or truths(dependence)
        replications = [
            replication(dependence, size, seed, truth[dependence]) for seed in range(n_replications)
        ]
        median_nats = np.median([nats for _, nats in replications])
        margin = 1.96 * math.sqrt(0.05 * 0.95 / n_replications)
        print(
            f"\n{size:,} {dependence}, {n_replications} replications (±{margin:.1%}), "
            f"{median_nats:.2f} nats\n"
            f"{'':28}{'approximate':>20}{'proven':>17}{'one look':>17}{'two test sets':>17}"
        )
        for metric, row_kind in truth[dependence]:
            label = metric if row_kind == "alone" else f"{metric}, {row_kind}"
            line = f"{label:<28}"
            for family in ("approximate", "proven", "look", "two"):
                results = [result[metric, row_kind, family] for result, _ in replications]
                line += _cell(family, np.array(results, float))
            print(line, flush=True)


if __name__ == "__main__":
    main()
