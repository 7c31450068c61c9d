"""Constants of the papers beside those of the library.

There are rows for definitions, lines of algorithms, theorems, lemmas and figures. Each row is
computed when it is printed. ``printed`` is the value of the paper's own expression, ``ours`` the
value that the library uses or certifies instead, and ``status`` the correction of the text.
"""

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.experiments._analyst import COLUMNS, run_repetition
from benchmarks.experiments._answering import Default, Practical
from benchmarks.experiments._samples import (
    RecordSample,
    StatisticSample,
    dwork_population,
    markov_population,
)
from benchmarks.papers import theorems
from benchmarks.papers.dwork import dwork_required_n
from sklearn_bdp.accounting.noise_calibration import (
    answer_margin,
    noise_margin,
    zhao_premise,
    zhao_required_n,
)
from sklearn_bdp.correlation import Groups, Independent, MarkovChain
from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.mechanisms.thresholdout import thresholdout_epsilon
from sklearn_bdp.planning import plan_holdout

P1 = [[0.9, 0.1], [0.2, 0.8]]
P2 = [[0.9, 0.1], [0.1, 0.9]]
ZHAO = "Zhao 2017"
CACM = "Dwork et al. 2017"
AS_PRINTED = "as printed"


@dataclass(frozen=True)
class Row:
    """Statement of a paper with the library's value.

    Parameters
    ----------
    paper, label : str
        Paper, and its label of the statement.
    quantity : str
        Computed quantity with its arguments.
    printed, ours : float or str
        Values of the paper and of the library.
    status : str
        ``"as printed"``, or the correction.
    function : str
        Dotted name of the function.
    test : str
        ``file::test`` that checks the value.
    """

    paper: str
    label: str
    quantity: str
    printed: object
    ours: object
    status: str
    function: str
    test: str


_PAPERS = "tests/benchmarks/test_papers.py::"
_ZHAO = "tests/accounting/test_zhao.py::"
_ROUTES = "tests/benchmarks/test_routes.py::"
_COSTS = "tests/mechanisms/test_thresholdout_epsilon.py::"
_LOOP = "tests/mechanisms/test_thresholdout.py::"


def zhao_rows():
    """Yield the rows of Zhao 2017."""
    yield from _definitions()
    yield from _algorithm_1()
    yield from _zhao_theorems()
    yield from _lemmas()
    yield from _proof_steps()
    yield from _related()
    yield from _zhao_figures()


def _definitions():
    flip = np.array([[0.45, 0.05], [0.05, 0.45]])
    yield Row(
        ZHAO, "(1)", "I∞ at β = .1, joint [[.45,.05],[.05,.45]], nats", math.log(0.8 / 0.5),
        theorems.approximate_max_information(flip, 0.1), AS_PRINTED,
        "benchmarks.papers.theorems.approximate_max_information",
        _PAPERS + "test_approximate_max_information_by_all_subsets",
    )  # fmt: skip
    yield Row(
        ZHAO, "(2)", "δ of randomized response (3:1) at ε = ln 3", 0.0,
        theorems.smallest_delta([0.75, 0.25], [0.25, 0.75], math.log(3)), AS_PRINTED,
        "benchmarks.papers.theorems.smallest_delta",
        _PAPERS + "test_smallest_delta_of_randomized_response",
    )  # fmt: skip
    yield Row(
        ZHAO, "§2.2", "exponential mechanism, u = (0, 1), ε = 2, Δ = 1: P(second)",
        math.e / (1 + math.e), float(theorems.exponential_mechanism([0, 1], 2.0, 1.0)[1]),
        AS_PRINTED, "benchmarks.papers.theorems.exponential_mechanism",
        _PAPERS + "test_exponential_mechanism_keeps_its_level",
    )  # fmt: skip
    yield Row(
        ZHAO, "(3)-(4)", "BDP level of ε′ = .1 on two copies of one record", 0.2,
        Groups([0, 0]).bdp_epsilon(0.1, 2), AS_PRINTED,
        "sklearn_bdp.correlation.Groups.bdp_epsilon",
        "tests/correlation/test_oracle.py::test_copies_leak_together",
    )  # fmt: skip


def _algorithm_1():
    sigma = 0.01
    n = 1000
    rounds = 2
    mechanism = Thresholdout.zhao2017(0.1, 0.05, 100, rounds)
    unit = mechanism.threshold_scale
    yield Row(
        ZHAO, "Alg. 1, line 1", "answer and query noise, in units of σ", "4, 2",
        f"{mechanism.answer_scale / unit:g}, {mechanism.query_scale / unit:g}", AS_PRINTED,
        "sklearn_bdp.mechanisms.Thresholdout.zhao2017",
        _COSTS + "test_zhao2017_noise_and_threshold_fill_the_accuracy",
    )  # fmt: skip
    yield Row(
        ZHAO, "Alg. 1, lines 2-14", "queries after the budget is spent: answered",
        "no", "no" if not _after_budget() else "yes", AS_PRINTED,
        "sklearn_bdp.mechanisms.Thresholdout.answer",
        _LOOP + "test_patterns_of_above_follow_the_distribution_of_the_algorithm",
    )  # fmt: skip
    scales = {"threshold_scale": sigma, "query_scale": 2 * sigma, "answer_scale": 4 * sigma}
    yield Row(
        ZHAO, "§3, §5.2", "DP level 9BΔ/4σ, B = 2, Δ = .001, σ = .01", 9 * rounds / (4 * sigma * n),
        thresholdout_epsilon(sensitivity=1 / n, budget=rounds, **scales), AS_PRINTED,
        "sklearn_bdp.mechanisms.thresholdout.thresholdout_epsilon",
        "tests/accounting/test_noise_margins.py::"
        "test_cost_of_a_run_matches_the_published_constants",
    )  # fmt: skip


def _after_budget():
    scales = {"threshold_scale": 0.0, "query_scale": 0.0, "answer_scale": 0.0}
    mechanism = Thresholdout(0.1, **scales, budget=1)
    return bool(mechanism.answer([0.9, 0.9], [0.1, 0.1]).answered[1])


def _zhao_theorems():
    independent = Independent()
    first = {"tau": 0.1, "budget": 1, "sigma": 0.5, "beta": 0.05, "model": independent}
    yield Row(
        ZHAO, "Thm 1, (7)", "n* at τ = .1, σ = .5, B = 1, β = .05, independent",
        max(9 * math.log(80) / 0.01, 9 / (2 * 0.1 / 3)), zhao_premise(method="blanket", **first),
        "premise as printed, with positive denominators",
        "sklearn_bdp.accounting.noise_calibration.zhao_premise",
        _ZHAO + "test_zhao_premise_7_is_the_one_by_markov_blankets",
    )  # fmt: skip
    yield Row(
        ZHAO, "Thm 1, (8)", "n# at τ = .4, σ = 8.44, B = 1, two blocks of 500",
        9 * 500 / (4 * 8.44 * 0.4 / 3),
        zhao_premise(tau=0.4, budget=1, sigma=8.44, beta=0.05, n=1000,
                     model=Groups(np.repeat([0, 1], 500))),
        "premise as printed; the conclusion is false (P = 1/2 at n = 1000)",
        "sklearn_bdp.accounting.noise_calibration.zhao_premise",
        _ZHAO + "test_zhao_theorem_1_is_false_for_two_blocks_of_identical_bits",
    )  # fmt: skip
    mechanism = Thresholdout.zhao2017(0.1, 0.05, 100, 1, 0.5)
    yield Row(
        ZHAO, "Thm 2", "σ and T at τ = .1, m = 100, β = .05, c = 1/2",
        f"{0.05 / (12 * math.log(8000)):.4g}, 0.075",
        f"{mechanism.threshold_scale:.4g}, {mechanism.threshold:g}", AS_PRINTED,
        "sklearn_bdp.mechanisms.Thresholdout.zhao2017",
        _COSTS + "test_zhao2017_noise_and_threshold_fill_the_accuracy",
    )  # fmt: skip
    for tau, m, rounds, name, chain in (
        (0.1, 100, 1, "independent", None),
        (0.1, 100, 1, "[[.9,.1],[.2,.8]]", P1),
        (0.05, 1000, 10, "[[.9,.1],[.1,.9]]", P2),
    ):
        model = Independent() if chain is None else MarkovChain(chain)
        common = {"tau": tau, "n_queries": m, "budget": rounds}
        yield Row(
            ZHAO, "Thm 2, n#", f"records, τ = {tau}, m = {m}, B = {rounds}, {name}",
            zhao_required_n(model=model, **common),
            plan_holdout(correlation=chain, route="transcript", **common),
            "rests on Theorem 1; certified after G1 has confirmed it",
            "sklearn_bdp.accounting.noise_calibration.zhao_required_n",
            _ZHAO + "test_zhao_theorem_2_on_chains_by_quilts_and_by_lemma_4",
        )  # fmt: skip
    arguments = (0.01, 100_000, 0.05)
    yield Row(
        ZHAO, "Thm 3", "I∞ at ε = .01, n = 100,000, β = .05, nats",
        theorems.approximate_information(*arguments, source="zhao2017"),
        theorems.approximate_information(*arguments, source="corrected"),
        "statement true, proof repaired (46)-(47)",
        "benchmarks.papers.theorems.approximate_information",
        _PAPERS + "test_theorem_3_holds_for_randomized_response_by_enumeration",
    )  # fmt: skip
    yield Row(
        ZHAO, "after Thm 3", "I∞ at ε = 1, n = 100: Theorem 19 of D15, Theorem 3, nats",
        "Thm 19 weaker",
        f"{theorems.dp_information(1.0, 100):.0f} < "
        f"{theorems.approximate_information(1.0, 100, 0.05, source='zhao2017'):.0f}",
        "false for ε ≥ 1/2", "benchmarks.papers.theorems.dp_information",
        _PAPERS + "test_theorem_19_is_the_stronger_one_from_one_half_on",
    )  # fmt: skip


def _lemmas():
    tau = 0.1
    n = 5000
    log_p0 = math.log(2.0) - 2.0 * tau**2 * n
    yield Row(
        ZHAO, "Lemma 1", "ln P(|Y(X) − Y(P)| ≥ .1), n = 5,000, independent",
        theorems.zhao_log_failure(tau, n, tau / 3),
        theorems.adaptive_log_failure(log_p0, n * (tau / 3) ** 2 / 8),
        "holds for independent records; else the model's own tail",
        "benchmarks.papers.theorems.zhao_log_failure",
        _PAPERS + "test_lemma_1_follows_from_g1_for_independent_records",
    )  # fmt: skip
    level = 0.05 / 12
    size = 10**9
    for label, method, test in (
        ("Lemma 2", "quilt", _ZHAO + "test_zhao_quilts_by_brute_force"),
        ("Lemma 4", "spectral", "tests/correlation/test_chain.py::test_reference_multipliers"),
    ):
        model = MarkovChain(P1, observed=True)
        yield Row(
            ZHAO, label, f"ε′ for ε = {level:.4f} on [[.9,.1],[.2,.8]]",
            model.dp_epsilon(level, size, method=method), model.dp_epsilon(level, size),
            "factor 4 as printed; 2 suffices, ours needs none" if method == "quilt"
            else "s from Section 5.3; t, ξ unused",
            "sklearn_bdp.correlation.MarkovChain.dp_epsilon", test,
        )  # fmt: skip
    weak = MarkovChain([[0.55, 0.45], [0.45, 0.55]], observed=True)
    yield Row(
        ZHAO, "Lemma 3", "ε′ for ε = 2 on [[.55,.45],[.45,.55]]",
        2.0 - 8.0 * math.log(11 / 9), weak.dp_epsilon(2.0, 1000, method="blanket"), AS_PRINTED,
        "sklearn_bdp.correlation.MarkovChain.dp_epsilon",
        "tests/correlation/test_chain.py::test_blanket_by_hand",
    )  # fmt: skip
    joint = np.array([[0.04, 0.01], [0.16, 0.79]])  # the ratio exceeds 1.3 with probability .04
    yield Row(
        ZHAO, "Lemma 6", "k = ln 1.3, β = .04: I∞ ≤ k, exactly", math.log(1.3),
        theorems.approximate_max_information(joint, 0.04), AS_PRINTED,
        "benchmarks.papers.theorems.approximate_max_information",
        _PAPERS + "test_lemma_6_by_enumeration",
    )  # fmt: skip


def _proof_steps():
    yield Row(
        ZHAO, "(14)", "P(answer off by τ), as a sum of two probabilities", "=", "≤",
        "a union bound, as (15) derives", "benchmarks.papers.theorems.theorem_2_noise_failure",
        _PAPERS + "test_equation_14_is_an_inequality",
    )  # fmt: skip
    m = 100
    beta = 0.05
    c = 0.5
    yield Row(
        ZHAO, "(18)", "noise failure, m = 100, β = .05, c = 1/2",
        theorems.theorem_2_noise_failure(m, beta, c, as_printed=True),
        theorems.theorem_2_noise_failure(m, beta, c), "max must be a sum; below β/2 for β ≤ 1/2",
        "benchmarks.papers.theorems.theorem_2_noise_failure",
        _PAPERS + "test_equation_18_is_a_sum_and_fits_into_half_of_beta",
    )  # fmt: skip
    sigma = 0.05 / (12 * math.log(8000))
    yield Row(
        ZHAO, "(31)", "n# expanded, τ = .1, m = 100, B = 1, c = 1/2",
        zhao_premise(tau=0.1, budget=1, sigma=sigma, beta=0.05, model=Independent()),
        zhao_required_n(tau=0.1, n_queries=100, budget=1, model=Independent()),
        "expands without substituting", "sklearn_bdp.accounting.noise_calibration.zhao_required_n",
        _ZHAO + "test_equation_31_expands_without_substituting",
    )  # fmt: skip
    low = 3.0
    high = 5.0
    yield Row(
        ZHAO, "(38)", "upper bound of 1/min(1/3, 1/5)", min(low, high), max(low, high),
        "min must be max", "benchmarks.papers.table",
        _PAPERS + "test_equation_38_bounds_by_the_larger_term",
    )  # fmt: skip
    groups = Groups([0, 0, 0])
    yield Row(
        ZHAO, "§5.2", "BDP level of ε′ = .3 on three copies", "ε = (ε′ − 4b)/3 = .1",
        f"{groups.bdp_epsilon(0.3, 3):.3g}", "ε and ε′ swapped",
        "sklearn_bdp.correlation.Groups.bdp_epsilon",
        "tests/correlation/test_oracle.py::test_copies_leak_together",
    )  # fmt: skip


def _related():
    delta = 1e-9
    yield Row(
        ZHAO, "§6", "(ε, δ): order of I∞, ε = .01, δ = 1e-9, n = 5,000",
        0.01**2 * 5000 + 5000 * math.sqrt(delta / 0.01),
        theorems.rogers_information(0.01, delta, 5000)[0], "O(·) of Rogers et al. 2016",
        "benchmarks.papers.theorems.rogers_information",
        _PAPERS + "test_rogers_order_needs_independent_records_first",
    )  # fmt: skip


def _zhao_figures():
    # |N| + 1 of the quilts {i−a, i+c} is a + c − 1: on a chain that forgets at once the best one
    # is the blanket, a = c = 1, whose level is ε itself.
    iid = MarkovChain([[0.5, 0.5], [0.5, 0.5]], observed=True)
    yield Row(
        ZHAO, "Fig. 1", "ε′/ε = 1/(a + c − 1) of the blanket, chain without memory", 1.0,
        iid.dp_epsilon(0.3, 1000, method="quilt") / 0.3, AS_PRINTED,
        "sklearn_bdp.correlation.MarkovChain.dp_epsilon",
        _ZHAO + "test_zhao_quilts_by_brute_force",
    )  # fmt: skip
    common, default, truth, margin = _zhao_experiment()
    yield Row(
        ZHAO, "Fig. 2", "common way, n = d = 1,000 (sizes ours): report, truth, %", "overfits",
        f"{100 * common:.1f}, {100 * truth:.1f}", "the paper gives no size and no chain",
        "benchmarks.experiments.zhao", _FIGURES,
    )  # fmt: skip
    yield Row(
        ZHAO, "Fig. 3", "BDP-based, same data: report by our default, %", "overfitting prevented",
        f"{100 * default:.1f} ± {100 * margin:.1f}",
        "Algorithm 1 needs n# records: python -m benchmarks.experiments.zhao",
        "benchmarks.experiments.zhao", _FIGURES,
    )  # fmt: skip


def _zhao_experiment():
    """Return the raw report, our report, the true accuracy and our half-width of one repetition."""
    n = 1000
    population = markov_population(n, 2, 0.268 / math.sqrt(2), stay=0.55, loading=0.1)
    rng = np.random.default_rng(0)
    run = run_repetition(population, RecordSample, n, [50], rng, answering=Default(0.55))[:, 0]
    reports, lower, upper, truth = (
        run[:, COLUMNS.index(name)] for name in ("holdout", "lower", "upper", "population")
    )
    return reports[0], reports[1], truth[0], (upper[1] - lower[1]) / 2


_FIGURES = "tests/benchmarks/test_experiments.py::test_one_command_writes_figures_and_tables"


def dwork_rows():
    """Yield the rows of Dwork et al. 2017."""
    yield from _dwork_theorems()
    yield from _dwork_algorithm()


def _dwork_theorems():
    tau = 0.1
    m = 1000
    yield Row(
        CACM, "Thm 1", "order of n₀, τ = .1, m = 1000, |X| = 2^20 (no constant)",
        theorems.multiplicative_weights_order(tau, m, 20 * math.log(2)),
        plan_holdout(tau=tau, n_queries=m, budget=10, route="transcript"),
        "O(·); ours: B = 10, transcripts",
        "benchmarks.papers.theorems.multiplicative_weights_order",
        _PAPERS + "test_orders_of_theorems_1_and_2",
    )  # fmt: skip
    yield Row(
        CACM, "Thm 2", "order of n₀, τ = .1, m = 1000 (no constant)",
        theorems.noise_addition_order(tau, m),
        plan_holdout(tau=tau, n_queries=m, budget=m, c=None, route="transcript"),
        "O(·); ours: every answer from the holdout",
        "benchmarks.papers.theorems.noise_addition_order",
        _PAPERS + "test_orders_of_theorems_1_and_2",
    )  # fmt: skip
    yield Row(
        CACM, "Def. 3", "δ of (.6, .4), (.4, .6) at ε = .1", 0.6 - 0.4 * math.exp(0.1),
        theorems.smallest_delta([0.6, 0.4], [0.4, 0.6], 0.1), AS_PRINTED,
        "benchmarks.papers.theorems.smallest_delta",
        _PAPERS + "test_smallest_delta_of_randomized_response",
    )  # fmt: skip
    n = 5000
    epsilon = 0.1
    yield Row(
        CACM, "Thm 4", "ln P(off by ε), ε = .1, n = 5,000", theorems.dwork_log_failure(epsilon, n),
        theorems.adaptive_log_failure(math.log(2) - 2 * epsilon**2 * n, n * epsilon**2 / 8),
        "as printed; G1 proves it and more", "benchmarks.papers.theorems.dwork_log_failure",
        _PAPERS + "test_theorem_4_follows_from_g1",
    )  # fmt: skip
    joint = np.array([[0.3, 0.2], [0.2, 0.3]])
    yield Row(
        CACM, "Def. 5", "I∞ of [[.3,.2],[.2,.3]], nats", math.log(0.3 / 0.25),
        theorems.approximate_max_information(joint), AS_PRINTED,
        "benchmarks.papers.theorems.approximate_max_information",
        _PAPERS + "test_approximate_max_information_by_all_subsets",
    )  # fmt: skip
    yield Row(
        CACM, "Thm 6", "ln(e^k p), k = 1, p = e^−3", -2.0,
        theorems.log_failure_by_information(-3.0, 1.0), AS_PRINTED,
        "benchmarks.papers.theorems.log_failure_by_information",
        _PAPERS + "test_theorem_6_and_corollary_7_by_enumeration",
    )  # fmt: skip
    yield Row(
        CACM, "Cor. 7", "ln P at k = τ²n, τ = .1, n = 500", -5.0,
        theorems.log_failure_by_information(-10.0, 5.0), AS_PRINTED,
        "benchmarks.papers.theorems.log_failure_by_information",
        _PAPERS + "test_theorem_6_and_corollary_7_by_enumeration",
    )  # fmt: skip
    yield Row(
        CACM, "Thm 8", "I∞ of an ε-DP algorithm, ε = .01, n = 500, nats", 0.01 * 500,
        theorems.dp_information(0.01, 500), AS_PRINTED,
        "benchmarks.papers.theorems.dp_information",
        _PAPERS + "test_theorem_8_by_enumeration_with_correlated_records",
    )  # fmt: skip
    parts = [(theorems.approximate_information(0.01, 5000, 0.01, source="dwork2015"), 0.01, False)]
    parts += [(theorems.description_information(100, 0.01), 0.01, True)]
    yield Row(
        CACM, "§3.1", "I∞ of DP (ε = .01, n = 5,000), then 100 outputs; β = .02",
        math.fsum(p[0] for p in parts), theorems.composed_information(parts)[0],
        "as printed; independent-record levels first only",
        "benchmarks.papers.theorems.composed_information",
        _PAPERS + "test_composition_of_dp_and_description_length_by_enumeration",
    )  # fmt: skip


def _dwork_algorithm():
    mechanism = Thresholdout.dwork2017(0.1, 0.05, 100, 1)
    unit = mechanism.answer_scale
    yield Row(
        CACM, "Fig. 1", "threshold, query, answer noise, in units of σ", "2, 4, 1",
        f"{mechanism.threshold_scale / unit:g}, {mechanism.query_scale / unit:g}, 1", AS_PRINTED,
        "sklearn_bdp.mechanisms.Thresholdout.dwork2017",
        _COSTS + "test_dwork2017_scales_have_the_ratios_of_figure_1",
    )  # fmt: skip
    yield Row(
        CACM, "Thm 9", "σ and T at τ = .1, m = 100, β = .05",
        f"{0.1 / (96 * math.log(8000)):.4g}, 0.075", f"{unit:.4g}, {mechanism.threshold:g}",
        AS_PRINTED, "sklearn_bdp.mechanisms.Thresholdout.dwork2017",
        _COSTS + "test_dwork2017_scales_have_the_ratios_of_figure_1",
    )  # fmt: skip
    for branch, rounds, test in (
        ("pure", 1, "test_dwork_constants_follow_from_theorem_4"),
        ("approximate", 20_000, "test_dwork_approximate_branch_meets_its_theorem_with_equality"),
    ):
        common = {"tau": 0.1, "n_queries": 100_000, "budget": rounds}
        yield Row(
            CACM, "Thm 9, n₀", f"{branch} side, τ = .1, m = 100,000, B = {rounds:,}",
            dwork_required_n(branch=branch, **common),
            plan_holdout(route="transcript", **common), "O(·); constants rebuilt from Theorem 4",
            "benchmarks.papers.dwork.dwork_required_n", _ROUTES + test,
        )  # fmt: skip
    practical = Thresholdout.dwork2017_practical()
    yield Row(
        CACM, "§4.1", "T, σ, noise", "0.04, 0.01, gaussian",
        f"{practical.threshold:g}, {practical.answer_scale:g}, {practical.noise}",
        "as printed; comes without a proof",
        "sklearn_bdp.mechanisms.Thresholdout.dwork2017_practical",
        _COSTS + "test_dwork2017_scales_have_the_ratios_of_figure_1",
    )  # fmt: skip
    sigma = 0.01
    margin = noise_margin(failure=0.01, threshold_scale=2 * sigma, query_scale=4 * sigma,
                          noise="gaussian")  # fmt: skip
    yield Row(
        CACM, "§4.1", "report off by at most, practical preset (99 %)", 0.04,
        0.04 + max(margin, answer_margin(failure=0.01, answer_scale=sigma, noise="gaussian")),
        "4 points hold for σ in the comparison, not for 2σ and 4σ",
        "sklearn_bdp.accounting.noise_calibration.noise_margin",
        "tests/benchmarks/test_experiments.py::test_reports_with_the_ratios_of_figure_1_scatter_more",
    )  # fmt: skip
    first, then = (_dwork_experiment(0, 500, order) for order in ("filter", "text"))
    figures = "tests/benchmarks/test_experiments.py::"
    yield Row(
        CACM, "Fig. 2", "standard report at k = 500, no signal, %: filter first", "over 63",
        f"{100 * first[0]:.1f}", "as printed with this order", "benchmarks.experiments.dwork",
        figures + "test_no_signal_at_full_size",
    )  # fmt: skip
    yield Row(
        CACM, "Fig. 2", "the same: pick k, then verify, as the text has it", "over 63",
        f"{100 * then[0]:.1f}", "the text's order does not give the figure",
        "benchmarks.experiments.dwork", figures + "test_order_of_the_text_gives_less",
    )  # fmt: skip
    fresh = _dwork_experiment(20, 20, "filter")
    yield Row(
        CACM, "Fig. 3", "fresh accuracy at k = 20, %: standard, reusable", "as good",
        f"{100 * fresh[2]:.1f}, {100 * fresh[3]:.1f}", AS_PRINTED, "benchmarks.experiments.dwork",
        figures + "test_signal_is_still_found_at_full_size",
    )  # fmt: skip


def _dwork_experiment(n_shifted, k, order, repetitions=5):
    """Return mean reported and fresh accuracies, standard and reusable, at the published size."""
    population = dwork_population(10_000, n_shifted, 0.06)
    runs = [
        run_repetition(
            population, StatisticSample, 10_000, [k], np.random.default_rng([0, number]),
            answering=Practical(), order=order,
        )[:, 0]
        for number in range(repetitions)
    ]  # fmt: skip
    mean = np.mean(runs, axis=0)
    report = COLUMNS.index("holdout")
    fresh = COLUMNS.index("fresh")
    return mean[0, report], mean[1, report], mean[0, fresh], mean[1, fresh]


def rows():
    """Return all rows."""
    return [*zhao_rows(), *dwork_rows()]


def text(value):
    """Format one value of a row."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
