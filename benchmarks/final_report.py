"""Coverage and half-width of both families of rows in a final report, where the truth is known.

Four adaptive searches of twenty candidates on one holdout; the report is about the candidate they
select. Nothing is fitted: candidates are noisy views of a signal, searches choose by what the
library's own account releases, and each row is made at the level of a report of one statement
after them (theory G17, G28). Beside it what people do: *one look* (cross-validation selects, the
holdout is used once, at 95%: DeLong for AUC of records, else a bootstrap of units, which in time
ignores that dates depend on each other) and *two test
sets* (one half of the holdout selects, the other reports). Means over replications; ± is the
binomial margin of a coverage of 95%. (Proven rows in time are those given the past, theory G26.)

    python -m benchmarks.final_report                    # 6 replications
    python -m benchmarks.final_report --size full        # 400
    python -m benchmarks.final_report --kinds 0 5        # 100 records, 1,000 patients
"""

import argparse
import math
import warnings

import numpy as np
from scipy.signal import lfilter
from scipy.stats import norm, rankdata

from sklearn_bdp.accounting.spending import final_code_length
from sklearn_bdp.intervals.bounds import share_limits, star_limits, unit_moments
from sklearn_bdp.intervals.jackknife import approximate_row
from sklearn_bdp.metrics.registry import statistic_of

try:
    from benchmarks.simulate_year import Account, Choice
except ImportError:  # run as a script
    from simulate_year import Account, Choice

REPLICATIONS = {"small": 6, "full": 400}
KINDS = [("records", n) for n in (100, 300, 1000)]
KINDS += [("patients", n) for n in (75, 250, 1000)] + [("time", 3000)]
QUALITIES = np.linspace(0.5, 0.8, 7)  # correlation of candidates with the signal
BASE, PREVALENCE, SEARCHES, CANDIDATES, WALK = 0.6, 0.3, 4, 20, 0.6
CUT = norm.isf(PREVALENCE) * math.hypot(1.0, 0.8)
ROWS = {  # name: statistic, what it reads, whether means of it are proven
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
KINDS_OF_ROW = ("alone", "difference", "subgroup", "gap")
SHOWN = {"difference": ("AUC", "accuracy", "Brier", "MAE"), "subgroup": ("AUC", "recall", "Brier"),
         "gap": ("AUC", "accuracy")}  # fmt: skip


class Sample:
    """Records: units, targets, a signal that candidates see, noise that they share, a subgroup."""

    def __init__(self, dependence, size, rng):
        visits = np.ones(size, int)
        record_parts = rng.normal(size=(3, size))
        if dependence == "patients":  # the ill come more often
            visits += rng.binomial(5, norm.cdf(record_parts[0]))
        self.units = np.repeat(np.arange(size), visits)
        self.rng, count = rng, len(self.units)
        signal, shared, error = rng.normal(size=(3, count))
        if dependence == "patients":
            signal, shared, error = (
                0.7 * unit_part[self.units] + math.sqrt(0.51) * record_part
                for unit_part, record_part in zip(
                    record_parts, (signal, shared, error), strict=True
                )
            )
        elif dependence == "time":
            signal, shared = lfilter(
                [math.sqrt(1.0 - WALK**2)], [1.0, -WALK], (signal, shared), axis=1
            )
        self.signal, self.shared = signal, shared
        self.y = (signal + 0.8 * error > CUT).astype(int)
        self.real = np.exp(0.3 * signal + 0.3 * error)
        self.inside = (np.arange(size) % 3 > 0)[self.units]  # two thirds of the units
        self.share = 1.0 / visits[self.units]

    def candidates(self, qualities):
        """Return what candidates of these qualities see of every record."""
        q = np.asarray(qualities)[:, None]
        noise = self.rng.normal(size=(len(q), len(self.y)))
        return q * self.signal + np.sqrt(1.0 - q**2) * (0.8 * self.shared + 0.6 * noise)

    def accuracies(self, latent):
        """Return accuracies per unit of candidates: what searches select by."""
        return ((latent > 1.0) == self.y) @ self.share / self.share.sum()

    def part(self, units):
        """Return the records of some units."""
        in_part, some = np.isin(self.units, units), object.__new__(Sample)
        for name in ("y", "real", "inside", "share"):
            setattr(some, name, getattr(self, name)[in_part])
        some.units = np.unique(self.units[in_part], return_inverse=True)[1]
        return some, in_part


def said(reads, latent):
    """Return a candidate's labels, scores, chances or values; one calibration for all."""
    return {
        "scores": lambda: latent,
        "labels": lambda: (latent > 1.0).astype(int),
        "chances": lambda: norm.cdf((0.65 * latent - CUT) / math.sqrt(1.64 - 0.65**2)),
        "values": lambda: np.exp(0.2 * latent + 0.1),
    }[reads]()


def sides(row_kind, reads, sample, latent, base):
    """Return the two sides, or the one, of a row."""
    response, inside = said(reads, latent), sample.inside
    return {
        "alone": [(response, None)],
        "difference": [(response, None), (said(reads, base), None)],
        "subgroup": [(response, inside)],
        "gap": [(response, inside), (response, ~inside)],
    }[row_kind]


def statistic_of(name, sample, some_sides, weights):
    """Return a row's statistic for weighted records."""
    statistic, reads = ROWS[name]
    y = sample.real if reads == "values" else sample.y
    two, sign = np.arange(len(y)) % 2, -1.0 if statistic.negative else 1.0
    values = [
        sign * statistic.left_out(y, response, weights * (1.0 if mask is None else mask), two, 2)[0]
        for response, mask in some_sides
    ]
    return values[0] - values[1] if len(values) == 2 else values[0]


def scores(name, sample, response):
    """Return each record's part of S and of k, and the largest k of a record; None: no mean."""
    y = sample.y
    hit, ones = response == y, np.ones(len(y))
    if name in ("accuracy", "recall", "precision"):
        counted = {"accuracy": ones > 0.0, "recall": y == 1, "precision": response == 1}[name]
        return hit & counted, counted, 1.0
    if name == "F1":
        return 2 * ((y == 1) & (response == 1)), (y == 1) * 1 + (response == 1), 2.0
    if name == "Brier":
        return (y - response) ** 2, ones, 1.0
    if name == "log loss":  # clipped at chances of 1%
        chance = np.clip(np.where(y == 1, response, 1.0 - response), 0.01, 1.0)
        return -np.log(chance) / math.log(100.0), ones, 1.0
    return None


def proven(name, row_kind, holdout, training, level):
    """Return the ends of a proven row, or None; both samples come with what models see."""
    reads = ROWS[name][1]
    if row_kind == "gap" or reads in ("scores", "values"):
        return None
    units = []
    reach = 1.0
    for position, (sample, latent, base) in enumerate((training, holdout)):
        contributions = [
            scores(name, sample, said(reads, candidate)) for candidate in (latent, base)
        ]
        if contributions[0] is None or (row_kind == "difference" and name == "F1"):
            return None
        (sums, counts, bound), base_sums = contributions[0], contributions[1][0]
        if row_kind == "difference":
            off = sums * 1.0 - base_sums
            if position == 0:  # a public range; larger differences count as this large
                reach = min(1.0, 1.5 * float(np.abs(off).max()))
            sums = 0.5 * (1.0 + np.clip(off, -reach, reach) / reach)
        mask = sample.inside if row_kind == "subgroup" else 1.0
        units.append([np.bincount(sample.units, sample.share * mask * x) for x in (sums, counts)])
    (sums, counts), holdout_sample = units[1], holdout[0]
    if (
        len(holdout_sample.units) == holdout_sample.units.max() + 1
        and reads == "labels"
        and row_kind != "difference"
    ):
        if name == "F1":  # by Jaccard's share
            ends = share_limits(int(sums.sum() / 2), int(counts.sum() - sums.sum() / 2), level)
            return [2.0 * end / (1.0 + end) for end in ends]
        return share_limits(round(float(sums.sum())), round(float(counts.sum())), level)
    moments = unit_moments(*units[0])
    ends = star_limits(
        sums, counts, bound=bound, moments=moments, log_inverse_level=math.log(2.0 / level)
    )
    if row_kind == "difference":
        ends = [reach * (2.0 * end - 1.0) for end in ends]
    span = -math.log(100.0) if name == "log loss" else -1.0 if name == "Brier" else 1.0
    return sorted(span * end for end in ends)


def one_look(name, row_kind, sample, latent, base, rng=None, *, records=False):
    """Return an interval at 95%: DeLong, a bootstrap of units, without ``rng`` a jackknife."""
    some = sides(row_kind, ROWS[name][1], sample, latent, base)
    if name == "AUC" and records and row_kind in ("alone", "difference"):
        y = sample.y == 1
        parts = []
        for response, _ in some:
            ranks = rankdata(response)
            parts.append((ranks[y] - rankdata(response[y])) / (~y).sum())
            parts.append(1.0 - (ranks[~y] - rankdata(response[~y])) / y.sum())
        above, below = (parts[a] - (parts[a + 2] if len(parts) == 4 else 0.0) for a in (0, 1))
        error = math.sqrt(above.var(ddof=1) / above.size + below.var(ddof=1) / below.size)
        return above.mean() - 1.96 * error, above.mean() + 1.96 * error
    count = int(sample.units.max()) + 1
    draws = []
    if rng is None:
        statistic, reads = ROWS[name]
        y = sample.real if reads == "values" else sample.y
        interval = approximate_row(statistic, y, some, units=sample.units, level=0.05)
        return interval.lower, interval.upper
    for _ in range(50):
        times = np.bincount(rng.integers(0, count, count), minlength=count)
        draws.append(statistic_of(name, sample, some, sample.share * times[sample.units]))
    return norm.interval(0.95, statistic_of(name, sample, some, sample.share), np.nanstd(draws))


def history(holdout, training, size, rng):
    """Play the searches; return what the reporter, the one-looker and the splitter selected."""
    account = Account(size, Choice(), rng)
    half = np.arange(holdout.units.max() + 1) < size // 2
    weights = holdout.share * half[holdout.units]
    best, chosen = 1, {}
    for _ in range(SEARCHES):
        quality_indices = np.clip(best + rng.integers(-1, 2, CANDIDATES), 0, len(QUALITIES) - 1)
        latent = [sample.candidates(QUALITIES[quality_indices]) for sample in (holdout, training)]
        cv_scores = training.accuracies(latent[1])
        values, _, _ = account.answer(cv_scores, holdout.accuracies(latent[0]))
        first = ((latent[0] > 1.0) == holdout.y) @ weights
        picks = {"report": values, "look": cv_scores, "two": first}
        for who, score in picks.items():
            at = int(np.argmax(score))
            chosen[who] = quality_indices[at], latent[0][at], latent[1][at]
        best = min(int(chosen["report"][0]) + 1, len(QUALITIES) - 2)
    nats = final_code_length(released=account.released, n_batches=account.batch)
    return chosen, nats


def replication(dependence, size, seed, truth):
    """Return for each row whether it held and its half-width, by family and rival; NaN: refused."""
    rng = np.random.default_rng(seed)
    holdout, training = Sample(dependence, size, rng), Sample(dependence, 3 * size, rng)
    times = size * (1.0 - WALK) / (1.0 + WALK) if dependence == "time" else None
    chosen, nats = history(holdout, training, int(times or size), rng)
    base = [sample.candidates([BASE])[0] for sample in (holdout, training)]
    level, results = 0.05 * math.exp(-nats), {}
    second, in_second = holdout.part(np.arange(size // 2, size))
    for name, (statistic, reads) in ROWS.items():
        y = holdout.real if reads == "values" else holdout.y
        for row in (r for r in KINDS_OF_ROW if name in SHOWN.get(r, ROWS)):
            quality_index, latent, trained = chosen["report"]
            interval = approximate_row(
                statistic, y, sides(row, reads, holdout, latent, base[0]), units=holdout.units,
                level=level, times=times,
            )  # fmt: skip
            ends = {"approximate": (interval.lower, interval.upper, quality_index)}
            exact = None if dependence == "time" else proven(
                name, row, (holdout, latent, base[0]), (training, trained, base[1]), level
            )  # fmt: skip
            ends["proven"] = (*(exact or (math.nan, math.nan)), quality_index)
            quality_index, latent, _ = chosen["look"]
            records = dependence != "patients"
            interval = one_look(name, row, holdout, latent, base[0], rng, records=records)
            ends["look"] = (*interval, quality_index)
            quality_index, latent, _ = chosen["two"]
            ends["two"] = (
                *one_look(name, row, second, latent[in_second], base[0][in_second]),
                quality_index,
            )
            for who, (low, high, at) in ends.items():
                right = low <= truth[name, row][at] <= high if low <= high else math.nan
                results[name, row, who] = right, 0.5 * (high - low)
    return results, nats


def truths(dependence):
    """Return the value of every row for every quality, from a large sample."""
    sample = Sample(dependence, 150_000, np.random.default_rng(0))
    latent, base = sample.candidates(QUALITIES), sample.candidates([BASE])[0]
    return {
        (name, row): [
            statistic_of(
                name, sample, sides(row, ROWS[name][1], sample, candidate, base), sample.share
            )
            for candidate in latent
        ]
        for name in ROWS
        for row in KINDS_OF_ROW
        if name in SHOWN.get(row, ROWS)
    }


def main():
    """Print one table for each kind and size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=tuple(REPLICATIONS), default="small")
    parser.add_argument("--replications", type=int)
    parser.add_argument("--kinds", type=int, nargs="+", default=range(len(KINDS)), help="from 0")
    options = parser.parse_args()
    count = options.replications or REPLICATIONS[options.size]
    warnings.simplefilter("ignore")
    truth = {}
    for dependence, size in (KINDS[position] for position in options.kinds):
        truth[dependence] = truth.get(dependence) or truths(dependence)
        results, nats = zip(
            *(replication(dependence, size, seed, truth[dependence]) for seed in range(count)),
            strict=True,
        )
        margin = 1.96 * math.sqrt(0.05 * 0.95 / count)
        print(
            f"\n{size:,} {dependence}, {count} replications (±{margin:.1%}), "
            f"{np.median(nats):.2f} nats\n"
            f"{'':28}{'approximate':>20}{'proven':>17}{'one look':>17}{'two test sets':>17}"
        )
        for name, row in truth[dependence]:
            line = f"{name + (', ' + row if row != 'alone' else ''):<28}"
            for who in ("approximate", "proven", "look", "two"):
                cells = np.array(
                    [result.get((name, row, who), (np.nan,) * 2) for result in results], float
                )
                has_interval = np.isfinite(cells[:, 0])
                if has_interval.any():
                    coverage, width = cells[has_interval].mean(axis=0)
                    line += f"{coverage:>11.1%} ±{width:<.3f}"
                else:
                    line += f"{'':>18}"
                if who == "approximate" and not has_interval.all():
                    line += f" ({1 - has_interval.mean():.0%} refused)"
            print(line, flush=True)


if __name__ == "__main__":
    main()
