"""Graded releases and their code: transcripts (G7, G17, relaxed), fixed places, cells that hold."""

import functools
import itertools
import math

import numpy as np
import pytest

from sklearn_bdp.accounting.spending import (
    AlphaSpending,
    PredictiveCode,
    code_length,
    rank_code_lengths,
)
from sklearn_bdp.release.graded_release import (
    Cells,
    EvenWidthPolicy,
    FinalWidthPolicy,
    GradedRelease,
    leading_position,
    make_width_policy,
)

WIDE = EvenWidthPolicy(coarse=3.0, nat_price=3.0, typical_n_fine=3.0)  # few cells: small trees
COARSE = FinalWidthPolicy(leader_half_width=5.0, log_failure=-6.0)
NODES = FinalWidthPolicy(leader_half_width=4.0, log_failure=-6.0, finest_first=1.1)


def margins(n_above):
    return 0.01, 0.02


def batch(
    cv_scores,
    *,
    relaxed_to=0.0,
    n=8,
    training_size=8.0,
    is_secondary=None,
    margins=margins,
    deviation_ratios=1.0,
    ranks=None,
):
    """Return a function that makes a graded release of a code and of a source of replies."""
    cv_scores = np.array(cv_scores, dtype=float)
    count = cv_scores.size
    return functools.partial(
        GradedRelease,
        noise_margins=margins,
        cv_scores=cv_scores,
        min_thresholds=np.broadcast_to(np.asarray(relaxed_to, dtype=float), count),
        noise_scales=np.ones(count),
        training_factors=np.full(count, 1.0 + n / training_size),
        score_deviations_at=lambda positions, predictions: np.sqrt(
            np.clip(predictions * (1 - predictions), 0.02, None) / n
        ),
        is_secondary=is_secondary is not None and np.array(is_secondary),
        deviation_ratios=deviation_ratios,
        ranks=None if ranks is None else np.array(ranks),
    )


class Unanswered(Exception):
    """A graded release compared more queries than were replied to so far."""


def replies(comparison):
    """Every reply that a mechanism could give: all "below", or a first "above" in any cell."""
    yield len(comparison.positions), None
    for count in range(len(comparison.positions)):
        cells = comparison.cells(count)
        for cell in range(cells.first_number, cells.last_number + 1):
            yield count + 1, cell


def transcripts(queries, play, *, state=None, history=()):
    """Yield ``(outcome, code)`` at the end of every path of one batch."""
    code = PredictiveCode(**(state or {}))
    remaining_replies = list(history)

    def reply_from_history(comparison):
        if not remaining_replies:
            raise Unanswered(comparison)
        return remaining_replies.pop(0)

    try:
        yield play(queries(code=code, compare=reply_from_history)), code
    except Unanswered as error:
        (comparison,) = error.args
        for reply in replies(comparison):
            yield from transcripts(queries, play, state=state, history=(*history, reply))


def running(policy):
    return lambda graded_release: graded_release.run_leader_first(policy)


@pytest.mark.parametrize("policy", [WIDE, COARSE, NODES])
@pytest.mark.parametrize("ranks", [[1, 2], [2, 1]])
def test_transcripts_with_public_ranks_have_probabilities_that_sum_to_one(ranks, policy):
    """G7, G34: scikit-learn's means over folds select, whatever predictions say."""
    queries = batch([0.9, 0.4], ranks=ranks)
    outcomes = list(transcripts(queries, running(policy)))
    assert sum(math.exp(-outcome.released_nats) for outcome, _ in outcomes) == pytest.approx(
        1.0, abs=1e-9
    )


def test_the_query_with_the_best_public_rank_has_the_fine_cell():
    def confirm(comparison):
        return len(comparison.positions), None

    widths = []
    for ranks in (None, [1, 2, 3], [2, 1, 3]):
        queries = batch([0.8, 0.79, 0.5], n=200, training_size=600.0, ranks=ranks)
        release = queries(code=PredictiveCode(), compare=confirm).run_leader_first(COARSE)
        widths.append(release.upper - release.lower)
    by_prediction, by_same_ranks, by_other_ranks = widths
    np.testing.assert_array_equal(by_prediction, by_same_ranks)
    assert by_prediction[0] < 0.7 * by_prediction[1]
    assert by_other_ranks[1] < 0.7 * by_other_ranks[0]


@pytest.mark.parametrize(
    ("values", "corrected", "ranks", "position"),
    [
        ([0.7, 0.8, 0.6], [False, False, False], None, 1),
        ([0.7, 0.8, 0.6], [False, False, False], [1, 2, 3], 0),
        ([0.7, 0.8, 0.6], [True, False, False], [1, 3, 2], 0),
        ([0.7, 0.5, 0.75], [True, False, False], [1, 3, 2], 2),
        ([0.7, 0.8, 0.6], [False, True, False], [1, 2, 3], 1),
        ([0.7, 0.65, 0.6], [False, True, False], [2, 1, 3], 0),
        ([0.7, 0.7, 0.6], [True, True, True], [2, 1, 3], 1),
        ([-np.inf, 0.8, 0.6], [False, False, False], [1, 3, 2], 2),
        ([-np.inf, -np.inf, -np.inf], [False, False, False], [3, 1, 2], 1),
    ],
)
def test_public_ranks_select_among_confirmed_queries(values, corrected, ranks, position):
    ranks = None if ranks is None else np.array(ranks)
    assert leading_position(np.array(values), np.array(corrected), ranks) == position


@pytest.mark.parametrize("policy", [WIDE, COARSE, NODES])
@pytest.mark.parametrize(
    ("cv_scores", "is_secondary"),
    [
        ([0.5], None),
        ([0.9, 0.4], None),
        ([1.0, 1.0], None),
        ([0.0, 0.7], None),
        ([0.5, 0.9], [False, True]),
        ([0.5, 0.9], [True, True]),
    ],
)
def test_transcripts_of_a_race_have_probabilities_that_sum_to_one(cv_scores, is_secondary, policy):
    """G7: the code is a probability over everything one batch can release (Kraft)."""
    queries = batch(cv_scores, is_secondary=is_secondary)
    outcomes = list(transcripts(queries, running(policy)))
    assert len(outcomes) > 2
    assert sum(math.exp(-outcome.released_nats) for outcome, _ in outcomes) == pytest.approx(
        1.0, abs=1e-9
    )


@pytest.mark.parametrize("policy", [WIDE, COARSE, NODES])
@pytest.mark.parametrize(
    ("cv_scores", "relaxed_to"),
    [
        ([0.5], 0.6),
        ([0.9, 0.4], [0.0, 0.7]),
        ([0.9, 0.4], [0.0, 1.0]),
        ([0.9, 0.4], [0.3, 0.2]),  # the leader, too
        ([0.95, 0.5, 0.2], [0.0, 0.315, 0.525]),
    ],
)
def test_transcripts_of_relaxed_candidates_have_probabilities_that_sum_to_one(
    cv_scores, relaxed_to, policy
):
    """Relaxed: least thresholds move cells, and the code is a probability over the moved cells."""
    queries = batch(cv_scores, relaxed_to=relaxed_to)
    outcomes = [outcome for outcome, _ in transcripts(queries, running(policy))]
    assert sum(math.exp(-outcome.released_nats) for outcome in outcomes) == pytest.approx(
        1.0, abs=1e-9
    )
    assert any(outcome.relaxed.any() for outcome in outcomes)
    for outcome in outcomes:
        assert not (outcome.relaxed & outcome.above).any()
        # No relaxed cell is narrower than its least threshold.
        relaxed_widths = np.where(outcome.relaxed, outcome.upper - outcome.lower, np.inf)
        assert (relaxed_widths >= np.minimum(relaxed_to, 1.0) - 1e-12).all()  # cut off at 0 and 1
        assert outcome.rank_lengths.tolist() == rank_code_lengths(np.array(cv_scores)).tolist()


@pytest.mark.parametrize("policy", [WIDE, COARSE, NODES])
@pytest.mark.parametrize("cv_scores", [[0.5], [0.9, 0.4]])
def test_transcripts_of_scores_that_vary_little_have_probabilities_that_sum_to_one(
    cv_scores, policy
):
    """G7, G15: cells and code are scaled alike by the variance of the training set."""
    queries = batch(cv_scores, deviation_ratios=0.6)
    outcomes = list(transcripts(queries, running(policy)))
    assert len(outcomes) > 2
    assert sum(math.exp(-outcome.released_nats) for outcome, _ in outcomes) == pytest.approx(
        1.0, abs=1e-9
    )


@pytest.mark.parametrize("relative_deviation", [1.0, 0.12, 0.03])
def test_a_right_prediction_costs_the_same_however_little_scores_vary(relative_deviation):
    """G15: a first answer, and the same one again; the code expects what the cell can resolve."""
    code = PredictiveCode()
    costs = []
    for _ in range(2):
        graded_release = batch(
            [0.8], n=1000, training_size=3000.0, deviation_ratios=relative_deviation
        )(code=code, compare=noiseless_replies(np.array([0.8])))
        policy = make_width_policy(AlphaSpending(), len(costs) + 1, -6.0)
        costs.append(graded_release.run_leader_first(policy).released_nats)
    assert costs[0] < 0.5
    assert costs[1] < 0.05


def test_thresholds_that_read_the_holdout_have_too_much_weight():
    """Relaxed: three widths, chosen by reading the holdout, are three times a probability."""
    total_weight = 0.0
    for relaxed_to in (0.6, 0.7, 0.8):
        queries = batch([0.5], relaxed_to=relaxed_to)
        outcomes = (outcome for outcome, _ in transcripts(queries, running(WIDE)))
        total_weight += sum(
            math.exp(-outcome.released_nats) for outcome in outcomes if not outcome.above.any()
        )
    assert 2.9 < total_weight < 3.0


def constant_thresholds(threshold):
    return lambda positions, predictions: (
        np.full(predictions.shape, threshold), np.zeros(predictions.shape, bool)
    )  # fmt: skip


@pytest.mark.parametrize("learns_offset", [True, False])
def test_transcripts_of_a_pass_on_a_fixed_grid_sum_to_one(learns_offset):
    queries = batch([0.8, 0.5])
    thresholds = constant_thresholds(0.15)
    outcomes = transcripts(
        queries,
        lambda graded_release: graded_release.run_sequential(
            thresholds, resolution=0.3, learns_offset=learns_offset
        ),
    )
    assert sum(math.exp(-outcome.released_nats) for outcome, _ in outcomes) == pytest.approx(
        1.0, abs=1e-9
    )


@pytest.mark.parametrize("cv_scores", [[0.6], [0.8, 0.5], [0.02, 0.9]])
def test_transcripts_of_queries_with_cells_of_their_own_sum_to_one(cv_scores):
    """Pairs of an earlier batch change the charge at most, and the batch adds no pair."""
    queries = batch(cv_scores)
    state = PredictiveCode(pairs=[(0.7, -0.2, 1e-4, 0)]).state()

    def play(graded_release):
        return graded_release.run_sequential(constant_thresholds(0.2), is_separate=True)

    outcomes = list(transcripts(queries, play, state=state))
    assert sum(math.exp(-outcome.released_nats) for outcome, _ in outcomes) == pytest.approx(
        1.0, abs=1e-9
    )
    for outcome, code in outcomes:
        assert len(code.pairs) == 1
        assert np.exp(-outcome.rank_lengths).sum() == pytest.approx(1.0)


def test_answers_with_fixed_cells_do_not_move_each_other():
    queries = batch([0.62, 0.61, 0.6, 0.61], n=250, margins=lambda n_above: (0.0, 0.0))
    values = np.array([0.5, 0.61, 0.3, 0.62])
    graded_release = queries(code=PredictiveCode(), compare=noiseless_replies(values))
    outcome = graded_release.run_sequential(constant_thresholds(0.06), is_separate=True)
    assert outcome.above.tolist() == [True, False, True, False]
    assert outcome.values[[1, 3]].tolist() == [0.61, 0.61]
    assert (np.abs(outcome.values - values) <= 0.06 + 1e-12).all()


@pytest.mark.parametrize("relaxed_fraction", [0.0, 0.7])
def test_an_adaptive_game_of_three_batches_obeys_kraft(relaxed_fraction):
    """G2′, G7: weights of queries, summed over batches, histories and ranks, are at most 1.

    The analyst's next batch depends on the transcript. Released values determine ranks and the
    smallest widths of relaxed candidates: ``relaxed_fraction`` of the distance to the best answer.
    """

    def weight_of_continuations(number, state, best_value, n_batches):
        cv_scores = (
            [np.clip(best_value, 0, 1)] if number == 2 else [0.3, np.clip(1.2 * best_value, 0, 1)]
        )
        best_score = max(best_value, *cv_scores)
        queries = batch(cv_scores, relaxed_to=relaxed_fraction * (best_score - np.array(cv_scores)))
        batch_length = code_length(released=0.0, batch_index=number)
        total = sum(
            math.exp(-batch_length - rank_length)
            for rank_length in rank_code_lengths(np.array(cv_scores))
        )
        if number == n_batches:
            return total
        for outcome, code in transcripts(queries, running(WIDE), state=state):
            best_score = float(np.nanmax(outcome.values))
            weight = math.exp(-outcome.released_nats)
            total += weight * weight_of_continuations(
                number + 1, code.state(), best_score, n_batches
            )
        return total

    assert weight_of_continuations(1, None, 0.6, 3) <= 1.0


@pytest.mark.parametrize("policy", [WIDE, COARSE, NODES])
@pytest.mark.parametrize(
    "spending",
    [AlphaSpending(), AlphaSpending("even"), AlphaSpending("final", 1), AlphaSpending("final", 9)],
)
def test_an_adaptive_game_with_a_report_at_the_worst_moment_obeys_kraft(spending, policy):
    """G16: weights of queries and of the report sum to at most 1, and reach 1.

    The analyst closes the holdout wherever that makes the sum over everything reachable largest.
    """

    def largest_weight(number, state, best_value, n_batches):
        report_weight = spending.report_weight(number - 1)
        if number > n_batches:
            return report_weight
        cv_scores = (
            [np.clip(best_value, 0, 1)] if number == 2 else [0.3, np.clip(1.2 * best_value, 0, 1)]
        )
        queries = batch(cv_scores)
        weight = spending.batch_weight(number)
        total = weight * np.exp(-rank_code_lengths(np.array(cv_scores))).sum()
        for outcome, code in transcripts(queries, running(policy), state=state):
            best = float(np.nanmax(outcome.values))
            total += math.exp(-outcome.released_nats) * largest_weight(
                number + 1, code.state(), best, n_batches
            )
        return max(report_weight, total)

    assert largest_weight(1, None, 0.6, 2) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("m", [1, 2, 3, 10, 1000])
def test_rank_weights_sum_to_one_and_cost_at_most_two_extra_nats(m):
    lengths = rank_code_lengths(np.random.default_rng(m).random(m))
    assert np.exp(-lengths).sum() == pytest.approx(1.0)
    assert lengths.max() <= math.log(m) + 1.9 + 1e-12
    assert lengths.min() <= math.log(2.0)  # the leader


def test_rank_lengths_do_not_depend_on_the_answers():
    """G7, conditions: re-ranking inside a batch would break the union bound."""
    queries = batch([0.9, 0.4])
    start = rank_code_lengths(np.array([0.9, 0.4]))
    for outcome, _ in transcripts(queries, running(WIDE)):
        assert outcome.rank_lengths.tolist() == start.tolist()


def test_secondary_queries_come_last_and_are_never_the_leader():
    """Better secondary scores change neither the leader nor the resolution of its query."""
    is_secondary = [True, False, False, True]
    queries = batch([0.95, 0.5, 0.8, 0.99], n=200, training_size=600.0, is_secondary=is_secondary)
    primary_queries = batch([0.5, 0.8, 0.1, 0.2], n=200, training_size=600.0)
    comparisons = {}
    for name, query_batch in (("alone", primary_queries), ("beside", queries)):
        comparisons[name] = []

        def reply_below(comparison, seen_comparisons=comparisons[name]):
            seen_comparisons.append(comparison)
            return len(comparison.positions), None

        graded_release = query_batch(code=PredictiveCode(), compare=reply_below)
        graded_release.run_leader_first(make_width_policy(AlphaSpending(), 1, -6.0))
    leader_comparison, other_comparison = comparisons["beside"]
    assert leader_comparison.positions.tolist() == [2]
    half_widths_alone = comparisons["alone"][0].surprise_half_widths
    assert leader_comparison.surprise_half_widths == pytest.approx(half_widths_alone)
    assert other_comparison.positions.tolist() == [1, 3, 0]
    values = np.array([0.95, 0.5, 0.8, 0.99])
    graded_release = queries(code=PredictiveCode(), compare=noiseless_replies(values))
    typical_deviations = graded_release.score_deviations_at(
        other_comparison.positions, other_comparison.predictions
    ) * math.sqrt(4 / 3)
    assert (other_comparison.thresholds > 6.0 * typical_deviations).all()
    rank_lengths = rank_code_lengths(np.array([0.1, 0.3, 0.4, 0.2]))  # by rank: 3, 1 (beside), …
    outcome = graded_release.run_leader_first(EvenWidthPolicy())
    assert outcome.rank_lengths.tolist() == rank_lengths.tolist()


def first_thresholds(given_rest, *, training_size, log_failure=-6.0):
    """Return the thresholds of the leaders of two batches, in deviations of the score."""
    code = PredictiveCode()
    thresholds = []

    def reply_below(comparison):
        thresholds.append(comparison.thresholds[0])
        return len(comparison.positions), None

    for batch_index in (1, 2):
        policy = make_width_policy(AlphaSpending(), batch_index, log_failure, given_rest=given_rest)
        queries = batch([0.5], n=200, training_size=training_size)
        queries(code=code, compare=reply_below).run_leader_first(policy)
    return np.array(thresholds) / math.sqrt(0.25 / 200)


@pytest.mark.parametrize("training_size", [100.0, 200.0, 600.0])
def test_the_first_cell_of_nodes_confirms_a_difference_that_chance_explains(training_size):
    """G27: at least 2 deviations of the difference between score and cross-validated score."""
    first, second = first_thresholds(True, training_size=training_size)
    usual_first, usual_second = first_thresholds(False, training_size=training_size)
    assert first == pytest.approx(2.0 * math.sqrt(1.0 + 200.0 / training_size))
    assert usual_first < first
    assert second == pytest.approx(usual_second, rel=0.05)


def test_the_first_cell_of_nodes_is_no_finer_than_usual():
    """A level that leaves a wide cell anyway."""
    thresholds = [
        first_thresholds(given_rest, training_size=600.0, log_failure=-2.0)
        for given_rest in (False, True)
    ]
    assert thresholds[1] == pytest.approx(thresholds[0])


@pytest.mark.parametrize("seed", range(20))
def test_the_value_lies_in_the_released_cell_for_any_query(seed):
    """Without noise each value is inside its cell, refined or not, and so is the released value."""
    rng = np.random.default_rng(seed)
    code = PredictiveCode()
    m = 30
    for _ in range(4):
        q = rng.random(m) if seed % 2 else np.clip(rng.normal(0.8, 0.05, m), 0, 1)
        cv_scores = np.clip(q + rng.normal(0.05, 0.1, m), 0, 1)
        queries = batch(cv_scores, n=100, margins=lambda n_above: (0.0, 0.0))
        graded_release = queries(code=code, compare=noiseless_replies(q))
        outcome = graded_release.run_leader_first(EvenWidthPolicy())
        assert ((q >= outcome.lower - 1e-9) & (q <= outcome.upper + 1e-9)).all()
        assert ((outcome.values >= outcome.lower) & (outcome.values <= outcome.upper)).all()


def noiseless_replies(q):
    """Reply without noise."""

    def reply(comparison):
        is_above = np.abs(q[comparison.positions] - comparison.predictions) > comparison.thresholds
        if not is_above.any():
            return is_above.size, None
        index = int(np.argmax(is_above))
        return index + 1, comparison.cells(index).cell_of(float(q[comparison.positions[index]]))

    return reply


def test_a_well_predicted_batch_costs_next_to_nothing():
    rng = np.random.default_rng(0)
    q = np.clip(rng.normal(0.85, 0.015, 500), 0, 1)
    code = PredictiveCode()
    for bound in (3.0, 0.7, 0.7):  # the first learns how good predictions are
        queries = batch(q, n=1000, training_size=3000.0)
        graded_release = queries(code=code, compare=noiseless_replies(q))
        outcome = graded_release.run_leader_first(EvenWidthPolicy())
        assert outcome.released_nats < bound
        assert not outcome.above.any()


def test_the_leader_gets_the_finest_cell():
    rng = np.random.default_rng(0)
    q = np.clip(rng.normal(0.85, 0.015, 50), 0, 1)
    queries = batch(q + 0.03, n=1000)
    graded_release = queries(code=PredictiveCode(), compare=noiseless_replies(q))
    outcome = graded_release.run_leader_first(EvenWidthPolicy())
    widths = outcome.upper - outcome.lower
    leader = widths[np.argmax(outcome.values)]
    # A fine cell is measured in deviations, which are smaller for a better prediction.
    assert leader <= 1.05 * widths.min()
    assert leader < 0.5 * np.median(widths)


def test_few_queries_get_narrower_cells_than_many():
    """Who does not lead a batch of two is known half as badly as in a batch of a hundred."""
    widths = {}
    for m in (2, 5, 100):
        q = np.full(m, 0.85)
        q[0] += 0.005
        graded_release = batch(q, n=1000, training_size=3000.0)(
            code=PredictiveCode(), compare=noiseless_replies(q)
        )
        outcome = graded_release.run_leader_first(EvenWidthPolicy())
        widths[m] = np.median(np.sort(outcome.upper - outcome.lower)[1:])
    assert widths[2] < 0.5 * widths[100]
    assert widths[2] < widths[5] < 0.6 * widths[100]


def test_cells_tile_the_line_and_contain_their_values():
    for center, half_width, step in (
        (0.5, 0.1, 0.0),
        (0.03, 0.4, 0.0),
        (0.9, 0.05, 0.3),
        (0.2, 2.0, 0),
    ):
        cells = Cells(center, half_width, grid_step=step)
        edges = [cells.edges(k) for k in range(cells.first_number, cells.last_number + 1)]
        assert edges[0][0] == -math.inf
        assert edges[-1][1] == math.inf
        assert all(
            left_edges[1] == pytest.approx(right_edges[0])
            for left_edges, right_edges in itertools.pairwise(edges)
        )
        for value in np.linspace(0, 1, 41):
            low, high = cells.edges(cells.cell_of(value))
            assert low - 1e-12 <= value <= high + 1e-12


# -- Predictions (G14) -----------------------------------------------------------------------------


def test_one_outlier_does_not_move_the_others():
    """G14: an offset learned from a candidate that is unlike the rest is not believed of them."""
    code = PredictiveCode()
    code.observe_cv_scores([0.6, 0.95])
    code.learn(0.6, 0.95, 1e-5)
    centers, _ = code.predict([0.95, 0.9])
    assert np.abs(centers - [0.95, 0.9]).max() < 0.01


def test_a_common_offset_is_learned():
    """G4: predictions follow from cross-validated and released scores alone."""
    code = PredictiveCode()
    code.observe_cv_scores([0.9, 0.8])
    assert code.predict([0.9, 0.8])[0].tolist() == [0.9, 0.8]
    for value in (0.9, 0.92, 0.95):
        code.learn(value, value - 0.05, 1e-4)
    np.testing.assert_allclose(code.predict([0.9, 0.94])[0], [0.85, 0.89], atol=2e-3)


def test_a_poor_candidate_does_not_teach_good_ones():
    code = PredictiveCode()
    code.observe_cv_scores([0.3, 0.95])
    code.learn(0.3, 0.6, 1e-4)
    assert code.predict([0.95])[0][0] == pytest.approx(0.95, abs=1e-6)
    assert code.predict([0.3])[0][0] > 0.5


def test_a_contradicted_difference_counts_little():
    code = PredictiveCode()
    code.observe_cv_scores(np.full(6, 0.9))
    for value in (0.86, 0.85, 0.60, 0.86, 0.85):
        code.learn(0.9, value, 1e-4)
    assert code.predict([0.9])[0][0] == pytest.approx(0.855, abs=0.01)


def test_predictions_stay_below_the_largest_observed_value():
    code = PredictiveCode()
    code.observe_cv_scores([0.80, 0.82])
    code.learn(0.80, 0.88, 1e-6)
    assert code.predict([0.82])[0][0] <= 0.88


def test_the_state_rebuilds_the_code():
    code = PredictiveCode()
    code.observe_cv_scores([0.9])
    code.learn(0.9, 0.85, 1e-4)
    first = code.state()
    code.learn(0.8, 0.77, 1e-4)
    code.charge(np.log(code.masses([0.7], [0.8], [0.75], [0.02], [0.01])))
    rebuilt = PredictiveCode()
    for state in (first, code.state(n_omitted_pairs=1)):
        rebuilt.update_from_state(state)
    assert rebuilt.state() == code.state()


def test_masses_are_probabilities_in_the_far_tails_too():
    code = PredictiveCode()
    cells = Cells(0.5, 1e-5)
    edges = np.array([cells.edges(k) for k in range(cells.first_number, cells.last_number + 1)])
    n_cells = len(edges)
    probabilities = code.masses(
        *edges.T, np.full(n_cells, 0.5), np.full(n_cells, 0.01), np.full(n_cells, 0.0)
    )
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(len(probabilities)), abs=1e-9)
    assert (probabilities > 0).all()
