"""Parameters of a holdout: as they are declared before there are records, and what they mean."""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from sklearn_bdp._typing import Seed
from sklearn_bdp.accounting.noise_calibration import (
    FINAL_NOISE,
    NOISE_PART,
    answer_margin,
    auto_resolution,
    auto_scales,
    epsilon_scales,
    noise_margin,
    noise_share,
    zhao_scales,
)
from sklearn_bdp.accounting.spending import Spending
from sklearn_bdp.exceptions import LedgerUnavailableError, LedgerVersionError
from sklearn_bdp.ledger.backend import Backend
from sklearn_bdp.ledger.postgresql import LedgerURL, is_url
from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.utils.validation import (
    check_boolean,
    check_fraction,
    check_integer,
    check_option,
    check_real,
    failure_probability,
    strip_traceback_frames,
)

if TYPE_CHECKING:
    from sklearn_bdp.correlation import CorrelationModel

ON_EXHAUSTED = ("raise", "nan", "cv")
DEFAULT_BUDGET = 10
FINEST_RESOLUTION = 1e-6  # released values are counted (theory G2): a million is plenty


#: What a mechanism is made with, besides its threshold and its noise. It has no grid of its own: a
#: batch places its noisy values in the cells that are charged.
_SCALES = "threshold_scale", "query_scale", "answer_scale", "budget", "refresh"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DerivedSettings:
    """Parameters as declared, and the numbers derived from them once; fixed for life."""

    #: As a configuration has checked them, and the gap; plain JSON values.
    parameters: dict = dataclasses.field(hash=False)
    n: int  # holdout records
    n_effective: float  # independent records they are worth in Hoeffding's exponent
    sampling_failure: float  # a part of beta, as the next two
    noise_failure: float
    cut_failure: float
    threshold_scale: float  # of Laplace noise, in score units, as the next two
    query_scale: float
    answer_scale: float
    refresh: bool  # whether the threshold noise is drawn anew after each "above"
    budget: int | None  # number of "above" answers; ``None``: no cap
    resolution: float  # grid step of released answers
    #: Threshold of every query; ``None``: chosen for each from public quantities.
    threshold: float | None
    learned: bool  # whether predictions learn from released answers
    tau: float | None  # accuracy that Zhao's Theorem 2 was run at
    races: bool  # whether batches are races: coarse cells for all, fine ones for whoever leads
    #: Leakage in nats that holds for life (theory G1); ``None`` where no level is declared.
    information: float | None

    @classmethod
    def made(
        cls, config: HoldoutConfig, gap: Any = None, *, model: CorrelationModel, n: int
    ) -> Self:
        """Return what a configuration means for ``n`` records of ``model``.

        ``gap``: records dropped between the training data and the holdout.
        """
        sides = gap if isinstance(gap, tuple | list) else (gap,)
        if len(sides) > 2:
            raise ValueError(
                f"gap must be a number of records, or (before, after), got gap={gap!r}."
            )
        gap = [check_integer("gap", side, low=0) for side in sides if side is not None]
        parameters = vars(config)["_checked"] | {"gap": gap}
        if model.is_given_past:
            for name, usual in (("epsilon", "auto"), ("calibration", "tight")):
                if parameters[name] != usual:
                    raise ValueError(
                        f"{name}={parameters[name]!r} needs a declared chain: correlation='time' "
                        "assumes nothing about dependence, which then bounds no level of privacy. "
                        "Declare a transition matrix, MarkovChain.from_scores(scores) or "
                        "MarkovChain.from_autocorrelation_time(records), or leave "
                        f"{name}={usual!r}."
                    )
        beta = parameters["beta"]
        # Theory H6: a cut out of one chain costs the Dobrushin coefficient, on each side.
        cut_failure = float(sum(model.cut_failure(side) for side in gap))
        left = beta - cut_failure
        if not left > beta / 10:
            raise ValueError(
                f"gap={gap} between training set and holdout fails with probability "
                f"{cut_failure:.3g}, but 1 - confidence_level is {beta:g}. Drop at least "
                f"{model.gap_for(beta / (4 * len(gap)))} records on each side that touches "
                "training data."
            )
        noise_failure, n_effective = NOISE_PART * left, float(model.effective_n(n))
        first = noise_share(noise_failure, 0) / 2.0  # half for the threshold, half for the answer
        epsilon, budget = parameters["epsilon"], parameters["budget"]
        threshold = None if parameters["threshold"] == "auto" else parameters["threshold"]
        printed, tau = parameters["calibration"] == "zhao2017", None
        if printed:
            promise = {"n_queries": parameters["n_queries"], "budget": budget, "beta": beta}
            scales, threshold, tau = zhao_scales(n, model=model, threshold=threshold, **promise)
        elif epsilon == "auto":
            scales = auto_scales(n_effective, failure=first, beta=beta)
        else:
            budget = DEFAULT_BUDGET if budget is None else budget
            scales = epsilon_scales(epsilon, budget=budget, model=model, n=n, failure=first)
        # Whoever gives a threshold, a grid or a budget gets what they gave: one pass, in order.
        automatic = parameters["threshold"] == "auto" and parameters["resolution"] == "auto"
        races = automatic and epsilon == "auto" and not printed and budget is None
        if races:
            resolution = 0.0
        elif parameters["resolution"] != "auto":
            resolution = parameters["resolution"]
        elif printed:
            resolution = FINEST_RESOLUTION  # Algorithm 1 does not round
        else:  # a whole number of cells, so that every cell has the same width
            resolution = 1.0 / math.ceil(1.0 / auto_resolution(n_effective, beta=beta))
        settings = cls(
            parameters=parameters,
            n=n,
            n_effective=n_effective,
            sampling_failure=left - noise_failure,
            noise_failure=noise_failure,
            cut_failure=cut_failure,
            **dict(zip(_SCALES[:3], map(float, scales), strict=True)),
            refresh=printed or epsilon == "auto",
            budget=budget,
            resolution=resolution,
            threshold=threshold,
            learned=not printed,
            tau=tau,
            races=races,
            information=None,
        )
        if epsilon == "auto" and tau is None:
            return settings
        # A level is declared for life: its leakage K (theory G1, G9).
        level, known = settings.mechanism().dp_epsilon(1.0 / n), math.inf
        if math.isfinite(level):
            known = float(model.sequential_information(level, n))
        return dataclasses.replace(settings, information=known if math.isfinite(known) else None)

    @property
    def beta(self) -> float:
        """Probability that any of the intervals is wrong."""
        return self.parameters["beta"]

    @property
    def is_private(self) -> bool:
        """Whether a level of privacy is declared for life: nothing is read without noise then."""
        return self.information is not None or self.tau is not None

    @functools.cached_property
    def spending(self) -> Spending:
        """How failure probability is spread over the life of the holdout."""
        return Spending(self.parameters["spending"], self.parameters["n_searches"])

    @classmethod
    def recorded(cls, header: dict[str, Any]) -> Self:
        """Return the settings in a ledger's header; see :meth:`header`."""
        return cls(parameters=header["parameters"], **header["settings"])

    def header(self) -> dict[str, Any]:
        """Return what a ledger's header keeps: parameters as declared, derived settings apart."""
        derived = dataclasses.asdict(self)
        return {"parameters": derived.pop("parameters"), "settings": derived}

    def scales(self) -> dict[str, Any]:
        """Return the public part of the mechanism: arguments of Thresholdout."""
        return {"noise": "laplace"} | {name: getattr(self, name) for name in _SCALES}

    def mechanism(self, *, random_state: Seed = None) -> Thresholdout:
        """Return a fresh Thresholdout; the holdout gives a threshold with every query."""
        threshold = 0.5 if self.threshold is None else self.threshold
        return Thresholdout(threshold, random_state=random_state, **self.scales())


def restored_mechanism(kept, settings, *, random_state=None):
    """Return Thresholdout as it was after the last recorded batch."""
    try:
        state = kept["mechanism"]
        mechanism = Thresholdout.from_state(state, random_state=random_state)
        # A sealed state with less noise than the holdout was made with is none of ours.
        if all(state[name] == value for name, value in settings.scales().items()):
            return mechanism
    except (ValueError, KeyError, TypeError, RecursionError):
        pass  # what that error says could quote the noise
    raise LedgerVersionError(
        "the ledger's mechanism was written by another version of this package, which is needed to "
        "continue with it. The holdout was not queried."
    )


def final_noise(settings):
    """Return the noise of a final report as a part of that of other answers."""
    return FINAL_NOISE if settings.parameters["epsilon"] == "auto" and settings.tau is None else 1.0


def margins(settings, n_above):
    """Return the noise margins of "below" and "above" answers after ``n_above`` rounds.

    Half of the round's share of failure goes to its threshold, half to its answer.
    """
    known = vars(settings).setdefault("_margins", {})  # kept: no field, in no comparison
    if n_above not in known:
        share = noise_share(settings.noise_failure, n_above) / 2.0
        scales = {"threshold_scale": settings.threshold_scale, "query_scale": settings.query_scale}
        below = noise_margin(failure=share, **scales)
        known[n_above] = below, answer_margin(failure=share, answer_scale=settings.answer_scale)
    return known[n_above]


@dataclasses.dataclass(frozen=True, repr=False)
class HoldoutConfig:
    """Settings of a new holdout, for the ``holdout`` parameter of searches and selectors.

    Every field except ``test_size`` is a parameter of :class:`~sklearn_bdp.ReusableHoldout`,
    which describes it. All fields are checked here. Use :meth:`set_params` for a changed copy;
    ``search.set_params(holdout__confidence_level=0.9)`` changes that of a search.

    Parameters
    ----------
    test_size : float or splitter, default=0.25
        Fraction of the records to hold out, or a splitter with exactly one split. Ignored if
        ``X_val`` is passed to ``fit``.
    confidence_level : float, default=0.95
        Minimum probability that all intervals are correct together.
    spending : {"final", "even"}, default="final"
        What the failure probability is kept for: the final report, or all intervals alike.
    n_searches : int or None, default=None
        Number of searches expected before the final report.
    epsilon : float or "auto", default="auto"
        Bayesian differential privacy level in nats.
    calibration : {"tight", "zhao2017"}, default="tight"
        Noise calibration.
    threshold : float or "auto", default="auto"
        Deviation from which a query is answered from the holdout.
    resolution : float or "auto", default="auto"
        Grid step of released answers.
    budget : int or None, default=None
        Maximum number of corrected answers.
    n_queries : int or None, default=None
        Number of queries that ``calibration="zhao2017"`` is calibrated to.
    on_exhausted : {"raise", "nan", "cv"}, default="raise"
        What happens to queries once the budget is used up.
    ledger : str, Path or None, default=None
        SQLite file that records every answer. If None, records are kept in memory.
    ledger_timeout : float, default=60.0
        Longest wait for other threads and processes, in seconds.
    allow_shared_rows : bool, default=False
        Whether training records may equal holdout records.

    See Also
    --------
    ReusableHoldoutSearchCV : Takes it as ``holdout``.
    ReusableHoldout : A holdout that you split off yourself.

    Examples
    --------
    >>> from sklearn_bdp import HoldoutConfig
    >>> HoldoutConfig(0.3, confidence_level=0.9)
    HoldoutConfig(0.3, confidence_level=0.9)
    """

    test_size: Any = 0.25
    _: dataclasses.KW_ONLY
    confidence_level: float = 0.95
    spending: Literal["final", "even"] = "final"
    n_searches: int | None = None
    epsilon: float | Literal["auto"] = "auto"
    calibration: Literal["tight", "zhao2017"] = "tight"
    threshold: float | Literal["auto"] = "auto"
    resolution: float | Literal["auto"] = "auto"
    budget: int | None = None
    n_queries: int | None = None
    on_exhausted: Literal["raise", "nan", "cv"] = "raise"
    ledger: str | Path | None = None
    ledger_timeout: float = 60.0
    allow_shared_rows: bool = False

    def __post_init__(self) -> None:
        if not is_splitter(self.test_size):
            if isinstance(self.test_size, bool) or not isinstance(self.test_size, numbers.Real):
                raise TypeError(
                    "test_size must be a fraction of the records or a splitter with one split, "
                    f"got {type(self.test_size).__name__}."
                )
            check_fraction("test_size", self.test_size)
        check_option("calibration", self.calibration, ("tight", "zhao2017"))
        found: dict[str, Any] = {"calibration": self.calibration}
        for name, low, high, closed in (
            ("epsilon", 0.0, math.inf, "right"),
            ("threshold", 1e-9, 1.0, "both"),
            ("resolution", FINEST_RESOLUTION, 1.0, "both"),
        ):
            value = getattr(self, name)
            if isinstance(value, str):
                found[name] = check_option(name, value, ("auto",))
            else:
                found[name] = check_real(name, value, low=low, high=high, closed=closed)
        for name in ("budget", "n_queries"):
            value = getattr(self, name)
            found[name] = None if value is None else check_integer(name, value, low=1, high=2**53)
        if self.calibration == "zhao2017":
            if self.budget is None or self.n_queries is None:
                raise ValueError(
                    "calibration='zhao2017' runs Theorem 2, whose noise depends on the number of "
                    "queries and the budget: give both n_queries and budget, got "
                    f"n_queries={self.n_queries}, budget={self.budget}."
                )
            if self.epsilon != "auto":
                raise ValueError(
                    "calibration='zhao2017' fixes the noise itself; leave epsilon='auto', got "
                    f"epsilon={self.epsilon!r}."
                )
        spread = Spending(self.spending, self.n_searches)
        found |= {"spending": spread.name, "n_searches": spread.n_searches}
        found["beta"] = failure_probability(self.confidence_level)
        object.__setattr__(self, "_checked", found)
        check_option("on_exhausted", self.on_exhausted, ON_EXHAUSTED)
        if isinstance(check_path(self.ledger), LedgerURL):  # without the password, if it had one
            object.__setattr__(self, "ledger", check_path(self.ledger))
        check_real("ledger_timeout", self.ledger_timeout, low=0.0, high=1e6)
        check_boolean("allow_shared_rows", self.allow_shared_rows)

    def __repr__(self) -> str:
        changed = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)[1:]
            if getattr(self, field.name) != field.default
        ]
        return f"HoldoutConfig({', '.join([repr(self.test_size), *changed])})"

    # A search clones and sets parameters of what it holds as those of a nested estimator.

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the fields by name.

        Parameters
        ----------
        deep : bool, default=True
            Without effect; scikit-learn passes it.

        Returns
        -------
        dict
            Every field.
        """
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @strip_traceback_frames
    def set_params(self, **changes: Any) -> HoldoutConfig:
        """Return a changed copy: a configuration itself never changes.

        Parameters
        ----------
        **changes : dict
            Fields and their new values.

        Returns
        -------
        HoldoutConfig
            The copy, checked.
        """
        unknown = sorted(changes.keys() - self.get_params())
        if unknown:
            raise ValueError(
                f"{unknown[0]!r} is not a field of HoldoutConfig. Its fields are "
                f"{', '.join(self.get_params())}."
            )
        return dataclasses.replace(self, **changes)

    def __sklearn_clone__(self):
        return self


# The ledger may be a URL with a password, which frames hold.
HoldoutConfig.__init__ = strip_traceback_frames(HoldoutConfig.__init__)  # type: ignore[method-assign]


def is_splitter(value: Any) -> bool:
    """Return whether a value divides records as scikit-learn's splitters do."""
    return hasattr(value, "split") and hasattr(value, "get_n_splits")


def check_path(ledger):
    """Return the ledger; a path is absolute, because other processes may stand in other folders."""
    if ledger is None or isinstance(ledger, Backend):
        return ledger
    if is_url(ledger):
        return LedgerURL(ledger)
    given, other, _ = str(ledger).partition("://")  # what follows may hold a password
    if not isinstance(ledger, str | os.PathLike) or not given or other:
        raise TypeError(f"ledger must be a path, a postgresql:// URL or None, got {given}{other}.")
    path = Path(ledger).absolute()
    if os.path.isdir(path):  # also of a folder that is closed to this user
        raise LedgerUnavailableError(
            f"ledger {path} cannot be created: it is a folder; name a file in it."
        )
    return path
