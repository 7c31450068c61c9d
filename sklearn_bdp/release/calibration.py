"""Noise and failure probabilities of a holdout, derived once from its parameters."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any, Self

from sklearn_bdp._typing import Seed
from sklearn_bdp.accounting.noise_calibration import (
    FINAL_NOISE_FRACTION,
    NOISE_FAILURE_FRACTION,
    answer_margin,
    auto_resolution,
    auto_scales,
    epsilon_scales,
    noise_margin,
    round_noise_failure,
    zhao_scales,
)
from sklearn_bdp.accounting.spending import AlphaSpending
from sklearn_bdp.correlation.cutting import gap_failure_probability, required_gap
from sklearn_bdp.correlation.levels import sequential_information
from sklearn_bdp.exceptions import LedgerCorruptedError, LedgerVersionError
from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.utils.validation import check_integer

if TYPE_CHECKING:
    from sklearn_bdp.correlation import CorrelationModel

DEFAULT_BUDGET = 10  # with a numeric epsilon
FINEST_RESOLUTION = 1e-6  # released values are counted (theory G2): a million is plenty

#: Arguments of a mechanism besides its threshold, its kind of noise and its seed. It has no grid of
#: its own: noisy values are rounded to cells elsewhere.
_MECHANISM_ARGUMENTS = "threshold_scale", "query_scale", "answer_scale", "budget", "refresh"

#: Names in a ledger's header, if they differ: a ledger keeps its names for life.
_HEADER_NAMES = {"is_adaptive": "races", "learns_offset": "learned"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Calibration:
    """Parameters of a holdout and the numbers derived from them, fixed for its life."""

    #: Parameters as checked by a configuration, and the gap, as plain JSON values.
    parameters: dict = dataclasses.field(hash=False)
    n: int  # number of holdout records
    n_effective: float  # number of independent records with the same Hoeffding exponent
    sampling_failure: float  # part of the failure probability for sampling
    noise_failure: float  # part for the noise
    cut_failure: float  # part for a holdout that was cut out of a sequence
    threshold_scale: float  # scales of Laplace noise in units of [0, 1]
    query_scale: float
    answer_scale: float
    refresh: bool  # whether the threshold noise is redrawn after each corrected answer
    budget: int | None  # maximum number of corrections by the holdout, or None
    resolution: float  # grid step of released answers; 0: cells around predictions
    threshold: float | None  # of queries, or None: chosen for each from public quantities
    learns_offset: bool  # whether predictions learn from released answers
    tau: float | None  # accuracy that Theorem 2 of Zhao 2017 is run at; None: another calibration
    #: Whether a batch compares its leader finely and the others coarsely, unless it fixes
    #: half-widths.
    is_adaptive: bool
    information: float | None  # bound of the leakage for life, in nats (theory G1), or None

    @classmethod
    def from_config(cls, config: Any, gap: Any = None, *, model: CorrelationModel, n: int) -> Self:
        """Return the calibration of a :class:`~sklearn_bdp.HoldoutConfig`.

        Parameters
        ----------
        config : HoldoutConfig
            Parameters of the holdout.
        gap : int, pair of int or None, default=None
            Number of records dropped between the training data and the holdout, or numbers dropped
            before and after the holdout (None: no training data on that side).
        model : CorrelationModel
            Dependence of the holdout records.
        n : int
            Number of holdout records.

        Returns
        -------
        Calibration
            Checked parameters and the numbers derived from them.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, or the holdout cannot have it.
        """
        gap_sizes = _gap_sizes(gap)
        parameters = config.validated() | {"gap": gap_sizes}
        if model.sampling_scheme(n).calendar is not None:
            _check_no_privacy_level(parameters)
        beta = parameters["beta"]
        cut_failure = _cut_failure(model, gap_sizes, beta)
        remaining_failure = beta - cut_failure
        noise_failure = NOISE_FAILURE_FRACTION * remaining_failure
        n_effective = float(model.effective_n(n))
        noise = _calibrate_noise(
            parameters, model=model, n=n, n_effective=n_effective, noise_failure=noise_failure
        )
        epsilon_is_auto = parameters["epsilon"] == "auto"
        follows_zhao = noise.tau is not None
        # A given threshold, resolution or budget applies to every query, in one pass.
        is_adaptive = (
            parameters["threshold"] == "auto"
            and parameters["resolution"] == "auto"
            and epsilon_is_auto
            and not follows_zhao
            and noise.budget is None
        )
        calibration = cls(
            parameters=parameters,
            n=n,
            n_effective=n_effective,
            sampling_failure=remaining_failure - noise_failure,
            noise_failure=noise_failure,
            cut_failure=cut_failure,
            threshold_scale=noise.threshold_scale,
            query_scale=noise.query_scale,
            answer_scale=noise.answer_scale,
            refresh=follows_zhao or epsilon_is_auto,
            budget=noise.budget,
            resolution=_resolution(
                parameters["resolution"],
                is_adaptive=is_adaptive,
                follows_zhao=follows_zhao,
                n_effective=n_effective,
                beta=beta,
            ),
            threshold=noise.threshold,
            learns_offset=not follows_zhao,
            tau=noise.tau,
            is_adaptive=is_adaptive,
            information=None,
        )
        if epsilon_is_auto and not follows_zhao:
            return calibration
        return calibration._with_leakage(model)

    def _with_leakage(self, model):
        """Return this calibration with the leakage bound of its DP level, if it is finite.

        The bound (theory G1, G9) is the field ``information``, in nats.
        """
        dp_epsilon = self.make_mechanism().dp_epsilon(1.0 / self.n)
        if not math.isfinite(dp_epsilon):
            return self
        information = float(sequential_information(model, dp_epsilon, self.n))
        if not math.isfinite(information):
            return self
        return dataclasses.replace(self, information=information)

    @classmethod
    def from_header(cls, header: dict[str, Any]) -> Self:
        """Return the calibration in a parsed ledger header.

        Raise LedgerVersionError for a header with ``n_searches``.
        """
        if header["parameters"].get("n_searches") is not None:
            raise LedgerVersionError(
                "the ledger was made with n_searches, which this version does not support. The "
                "holdout was not queried."
            )
        field_names = {stored_name: name for name, stored_name in _HEADER_NAMES.items()}
        value_by_field = {
            field_names.get(stored_name, stored_name): value
            for stored_name, value in header["settings"].items()
        }
        return cls(parameters=header["parameters"], **value_by_field)

    @classmethod
    def from_ledger(cls, header: dict[str, Any], *, derived: dict[str, Any], path: Any) -> Self:
        """Return the calibration in the header of a ledger, which must follow from its parameters.

        ``derived``: the header that this version derives from the same parameters. ``path``: of the
        ledger, for the error. Raise LedgerCorruptedError if settings of both differ by more than
        rounding, and LedgerVersionError as :meth:`from_header` does.
        """
        recorded_settings = header.get("settings")
        derived_settings = derived["settings"]
        agrees = (
            isinstance(recorded_settings, dict)
            and recorded_settings.keys() == derived_settings.keys()
            and all(
                _agree(recorded_settings[name], value) for name, value in derived_settings.items()
            )
        )
        if not agrees:
            raise LedgerCorruptedError(
                f"ledger {path} has numbers in its header that its parameters do not lead to (made "
                f"by {header.get('made_by')!r:.60}, this is {derived['made_by']!r}): it was "
                "edited, or made by a version that derives others. The holdout was not queried."
            )
        return cls.from_header(header)

    def header(self) -> dict[str, Any]:
        """Return ``parameters`` and ``settings``, the derived values, for a ledger header."""
        derived_settings = {
            _HEADER_NAMES.get(name, name): value
            for name, value in dataclasses.asdict(self).items()
            if name != "parameters"
        }
        return {"parameters": self.parameters, "settings": derived_settings}

    @property
    def beta(self) -> float:
        """Largest probability that any of the proven intervals is wrong."""
        return self.parameters["beta"]

    @property
    def is_private(self) -> bool:
        """Whether leakage has a finite bound for life, or ``calibration="zhao2017"`` is set."""
        return self.information is not None or self.tau is not None

    @functools.cached_property
    def spending(self) -> AlphaSpending:
        """Rule by which failure probability is spread over the life of the holdout."""
        return AlphaSpending(self.parameters["spending"])

    @property
    def final_noise_ratio(self) -> float:
        """Ratio of the scale of answer noise in a final report to that in other answers.

        The ratio is 1 with a numeric ``epsilon`` or ``calibration="zhao2017"``.
        """
        if self.parameters["epsilon"] == "auto" and self.tau is None:
            return FINAL_NOISE_FRACTION
        return 1.0

    @functools.cached_property
    def _margins_by_round(self):
        """Cache of :meth:`noise_margins` by ``n_rounds``."""
        return {}

    def noise_margins(self, n_rounds: int) -> tuple[float, float]:
        """Return the noise margins of a confirmed and of a corrected answer.

        Parameters
        ----------
        n_rounds : int
            Number of earlier comparisons that the holdout corrected.

        Returns
        -------
        confirmed, corrected : float
            Margins for scores in [0, 1] with the sensitivity ``1/n``.
        """
        if n_rounds not in self._margins_by_round:
            failure = round_noise_failure(self.noise_failure, n_rounds) / 2.0
            confirmed = noise_margin(
                failure=failure, threshold_scale=self.threshold_scale, query_scale=self.query_scale
            )
            corrected = answer_margin(failure=failure, answer_scale=self.answer_scale)
            self._margins_by_round[n_rounds] = confirmed, corrected
        return self._margins_by_round[n_rounds]

    def mechanism_arguments(self) -> dict[str, Any]:
        """Return the arguments of Thresholdout without threshold and seed, by name."""
        return {"noise": "laplace"} | {name: getattr(self, name) for name in _MECHANISM_ARGUMENTS}

    def make_mechanism(self, *, random_state: Seed = None) -> Thresholdout:
        """Return a new Thresholdout; a batch gives it a threshold with every query."""
        threshold = 0.5 if self.threshold is None else self.threshold
        return Thresholdout(threshold, random_state=random_state, **self.mechanism_arguments())

    def restore_mechanism(
        self, secret_state: dict[str, Any], *, random_state: Seed = None
    ) -> Thresholdout:
        """Return Thresholdout in the state that a secret state contains.

        Raise LedgerVersionError if it cannot be restored or does not have
        :meth:`mechanism_arguments`.
        """
        try:
            state = secret_state["mechanism"]
            mechanism = Thresholdout.from_state(state, random_state=random_state)
            # A state with other noise than the holdout was made with was not written by it.
            if all(state[name] == value for name, value in self.mechanism_arguments().items()):
                return mechanism
        except (ValueError, KeyError, TypeError, RecursionError):
            pass  # the error's text could quote the noise
        raise LedgerVersionError(
            "the ledger's mechanism was written by another version of this package, which is "
            "needed to continue with it. The holdout was not queried."
        )


def _agree(recorded, derived):
    """Return whether a recorded setting equals a derived one, up to rounding of floats."""
    if isinstance(derived, float) and isinstance(recorded, float | int):
        return math.isclose(recorded, derived, rel_tol=1e-6)
    return recorded == derived


def _gap_sizes(gap):
    """Return the numbers of dropped records, one for each side of the holdout with training data.

    ``gap``: one number, a pair (None: a side without training data), or None. Raise ValueError for
    more than two items, and TypeError or ValueError for another number than an integer of at least
    0.
    """
    gap_by_side = gap if isinstance(gap, tuple | list) else (gap,)
    if len(gap_by_side) > 2:
        raise ValueError(f"gap must be a number of records, or (before, after), got gap={gap!r}.")
    return [check_integer("gap", size, low=0) for size in gap_by_side if size is not None]


def _check_no_privacy_level(parameters):
    """Raise ValueError if parameters of a holdout in time order set a level of privacy."""
    for name, default in (("epsilon", "auto"), ("calibration", "tight")):
        if parameters[name] != default:
            raise ValueError(
                f"{name}={parameters[name]!r} needs a model of the dependence, and "
                f"correlation='time' assumes none. Leave {name}={default!r}, or set "
                "correlation=MarkovChain.from_autocorrelation_time(5) if 5 records is yours."
            )


def _cut_failure(model, gap_sizes, beta):
    """Return the failure probability of a holdout cut out of one sequence with training data.

    ``gap_sizes``: number of dropped records on each side with training data; the result is 0
    without any. Raise ValueError if this probability is at least 90% of ``beta``, the failure
    probability of all intervals.
    """
    # Theory H6: a cut out of one chain costs the Dobrushin coefficient, on each side.
    cut_failure = float(sum(gap_failure_probability(model, size) for size in gap_sizes))
    if not beta - cut_failure > beta / 10:
        raise ValueError(
            f"gap={gap_sizes} between training set and holdout fails with probability "
            f"{cut_failure:.3g}, but 1 - confidence_level is {beta:g}. Drop at least "
            f"{required_gap(model, beta / (4 * len(gap_sizes)))} records on each side that touches "
            "training data."
        )
    return cut_failure


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Noise:
    """Noise scales in [0, 1], threshold, budget and ``tau`` of a :class:`Calibration`."""

    threshold_scale: float
    query_scale: float
    answer_scale: float
    threshold: float | None
    budget: int | None
    tau: float | None


def _calibrate_noise(parameters, *, model, n, n_effective, noise_failure):
    """Return the noise scales, threshold, budget and ``tau`` of a :class:`Calibration`.

    ``parameters``: as checked by a configuration. ``model``: dependence of the ``n`` records.
    ``noise_failure``: failure probability of all noise margins together.
    """
    epsilon = parameters["epsilon"]
    budget = parameters["budget"]
    threshold = None if parameters["threshold"] == "auto" else parameters["threshold"]
    tau = None
    # Half of the first round's failure probability goes to comparisons, half to the answer.
    first_round_failure = round_noise_failure(noise_failure, 0) / 2.0
    if parameters["calibration"] == "zhao2017":
        scales, threshold, tau = zhao_scales(
            n,
            model=model,
            threshold=threshold,
            n_queries=parameters["n_queries"],
            budget=budget,
            beta=parameters["beta"],
        )
    elif epsilon == "auto":
        scales = auto_scales(n_effective, failure=first_round_failure, beta=parameters["beta"])
    else:
        budget = DEFAULT_BUDGET if budget is None else budget
        scales = epsilon_scales(
            epsilon, budget=budget, model=model, n=n, failure=first_round_failure
        )
    threshold_scale, query_scale, answer_scale = map(float, scales)
    return _Noise(
        threshold_scale=threshold_scale,
        query_scale=query_scale,
        answer_scale=answer_scale,
        threshold=threshold,
        budget=budget,
        tau=tau,
    )


def _resolution(resolution, *, is_adaptive, follows_zhao, n_effective, beta):
    """Return the grid step of released answers in [0, 1], 0 if each query has cells of its own.

    ``resolution``: the parameter, a number or "auto". ``follows_zhao``: whether the calibration is
    ``"zhao2017"``. ``beta``: failure probability of all intervals.
    """
    if is_adaptive:
        return 0.0
    if resolution != "auto":
        return resolution
    if follows_zhao:
        return FINEST_RESOLUTION  # Algorithm 1 does not round
    # A whole number of cells, so that all cells have the same width.
    return 1.0 / math.ceil(1.0 / auto_resolution(n_effective, beta=beta))
