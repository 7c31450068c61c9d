"""Contract of correlation models: one class of tests, inherited by the tests of each model.

A new model writes ``class TestMine(ModelContract): model = staticmethod(lambda: Mine(...))`` and
``n`` (its number of records); everything below then holds for it or fails by name.
"""

import copy
import math
import pickle

import numpy as np
import pytest

from sklearn_bdp.correlation import CorrelationModel, check_correlation
from sklearn_bdp.correlation.components import largest_component
from sklearn_bdp.correlation.cutting import gap_failure_probability
from sklearn_bdp.correlation.levels import posterior_bias, sequential_information
from sklearn_bdp.correlation.scheme import ConcentrationBound
from tests.facts import refused

from .levels import sequential_epsilon
from .tails import log_tail_above

LEVELS = (1e-4, 0.01, 0.3)


#: Methods that code outside the package calls, and those that a base class calls.
METHODS = (
    *("describe", "fingerprint", "check_n", "sampling_scheme", "components"),
    *("split", "folds", "subset"),
    *("conditional_on_rest", "training_model", "with_estimated_strength"),
    *("effective_n", "log_tail", "mean_lower_limit", "bdp_epsilon", "dp_epsilon"),
)


class ModelContract:
    """Tests that hold for any model; subclasses give ``model`` and ``n``."""

    n = 12
    model = None

    def test_no_method_is_missing(self):
        model = self.model()
        missing = [name for name in METHODS if not callable(getattr(model, name, None))]
        assert missing == [], f"{type(model).__name__} lacks {', '.join(missing)}"

    def cannot_be_split(self, model):
        """Whether nothing can be held out: one component, and no bounds given the rest."""
        is_connected = largest_component(model, self.n) == self.n
        scheme = model.sampling_scheme(self.n)
        return scheme.has_independent_units and is_connected and not scheme.bounds_hold_given_rest

    def test_is_a_frozen_value_compared_by_content_and_described_in_one_line(self):
        model = self.model()
        second_model = self.model()
        assert isinstance(model, CorrelationModel)
        assert model == second_model
        assert hash(model) == hash(second_model)
        assert copy.deepcopy(model) is check_correlation(model) is model
        assert pickle.loads(pickle.dumps(model)) == model
        with refused(AttributeError, "frozen"):
            model.anything = 1
        line = model.describe()
        assert line
        assert "\n" not in line

    def test_components_cover_every_record(self):
        model = self.model()
        codes = model.components(self.n)
        assert codes.shape == (self.n,)
        assert largest_component(model, self.n) == np.bincount(codes).max()
        scheme = model.sampling_scheme(self.n)
        assert scheme.has_independent_records == (largest_component(model, self.n) == 1)
        assert not scheme.has_independent_records or scheme.has_independent_units

    def test_scheme_agrees_with_its_records(self):
        scheme = self.model().sampling_scheme(self.n)
        assert scheme.n_records == self.n
        assert 1 <= scheme.n_units <= self.n
        assert scheme.unit_name in {"records", "groups", "dates"}
        assert scheme.target
        assert scheme.has_independent_units or not scheme.exchangeable
        assert (scheme.calendar is not None) == (scheme.bound is ConcentrationBound.MARTINGALE)
        with refused(AttributeError, "n_units"):
            scheme.n_units = 1

    def test_weights_and_blocks_of_the_scheme_cover_every_record(self):
        scheme = self.model().sampling_scheme(self.n)
        assert scheme.record_blocks.shape == (self.n,)
        if scheme.weights is not None:
            assert scheme.weights.sum() == pytest.approx(1.0)
        means = scheme.block_means(np.arange(self.n, dtype=float))
        assert means.shape == np.unique(scheme.record_blocks).shape

    def test_splits_and_folds_are_partitions_up_to_the_gap(self):
        model = self.model()
        if self.cannot_be_split(model):
            with refused(ValueError, "component"):
                model.split(self.n, 0.3, random_state=0)
            return
        split = model.split(self.n, 0.3, random_state=0)
        assert len(split.train)
        assert len(split.holdout)
        split_rows = np.concatenate([split.train, split.holdout])
        assert len(np.unique(split_rows)) == len(split_rows) == self.n - split.gap
        assert 0.0 <= gap_failure_probability(model, split.gap) <= 1.0
        holdout_model = model.conditional_on_rest(split.holdout)
        assert holdout_model.check_n(len(split.holdout)) == len(split.holdout)
        folds = model.folds(self.n, 2, random_state=0)
        tested = np.concatenate([test for _, test in folds])
        assert sorted(tested) == list(range(self.n))
        assert not any(np.intersect1d(train, test).size for train, test in folds)

    # -- leakage --------------------------------------------------------------------------------

    def test_leakage_is_between_the_level_and_group_privacy_and_grows(self):
        model = self.model()
        leakage = [model.bdp_epsilon(level, self.n) for level in LEVELS]
        assert leakage == sorted(leakage)
        for level, bdp_epsilon in zip(LEVELS, leakage, strict=True):
            assert level * (1 - 1e-12) <= bdp_epsilon <= self.n * level * (1 + 1e-9)
            assert sequential_epsilon(model, level, self.n) <= bdp_epsilon * (1 + 1e-9)
        for level in (math.nan, -1.0, math.inf):
            with refused(ValueError, "dp_epsilon"):
                model.bdp_epsilon(level, self.n)

    def test_inverse_ends_on_the_safe_side(self):
        model = self.model()
        for target_level in LEVELS:
            level = model.dp_epsilon(target_level, self.n)
            assert 0.0 <= level <= target_level
            assert model.bdp_epsilon(level, self.n) <= target_level

    def test_information_and_bias_are_finite_and_zero_at_zero(self):
        model = self.model()
        for level in (0.0, *LEVELS):
            information = sequential_information(model, level, self.n)
            bias = posterior_bias(model, level, self.n)
            assert 0.0 <= information < math.inf
            assert 0.0 <= bias <= 1.0
            assert (information == 0.0) == (bias == 0.0) == (level == 0.0)

    # -- concentration --------------------------------------------------------------------------

    def test_tails_fall_with_the_deviation_and_rise_with_the_mean(self):
        model = self.model()
        grid = np.linspace(0.0, 1.0, 21)
        assert 0.0 < model.effective_n(self.n) <= self.n * (1 + 1e-9)
        assert (np.diff(model.log_tail(grid, self.n)) <= 1e-12).all()
        for mean in (0.0, 0.1, 0.5, 0.9, 1.0):
            tail = log_tail_above(model, mean, grid, self.n)
            assert (tail <= 0.0).all()
            assert (tail[1:] <= tail[:-1] + 1e-9).all()  # both may be -inf
            assert (tail[grid <= mean] == 0.0).all()
        assert (np.diff(log_tail_above(model, grid, 0.8, self.n)) >= -1e-9).all()

    def test_limits_are_rejected_by_the_tail(self):
        """G5: two routes, the inversion and the tail at the limits that it returns."""
        model = self.model()
        values = np.linspace(0.0, 1.0, 21)
        for level in (-1.0, -4.0, -20.0):
            limits = model.mean_lower_limit(values, level, self.n)
            assert ((limits >= 0.0) & (limits <= values)).all()
            is_positive = limits > 1e-6
            tail = log_tail_above(model, limits[is_positive], values[is_positive], self.n)
            assert (tail <= level * (1.0 - 1e-3)).all()  # weighted means: exponents are on grids
