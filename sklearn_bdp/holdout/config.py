"""Configuration of a holdout: defaults, checks and documentation of its parameters."""

from __future__ import annotations

import dataclasses
import inspect
import math
import numbers
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

from sklearn_bdp.accounting.spending import AlphaSpending
from sklearn_bdp.correlation import CorrelationModel
from sklearn_bdp.exceptions import LedgerUnavailableError
from sklearn_bdp.ledger.backend import Backend
from sklearn_bdp.ledger.postgresql import LedgerURL, is_url
from sklearn_bdp.release.calibration import FINEST_RESOLUTION
from sklearn_bdp.utils.argument_hints import with_argument_hints
from sklearn_bdp.utils.validation import (
    check_boolean,
    check_fraction,
    check_integer,
    check_option,
    check_real,
    failure_probability,
    strip_traceback_frames,
)

ON_EXHAUSTED = ("raise", "nan", "cv")
_MAX_COUNT = 2**53  # integers up to here are exact in floating point
_MAX_TIMEOUT = 1e6  # seconds

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExpertSettings:
    r"""Rarely used settings of a holdout, for ``HoldoutConfig(expert=...)``.

    Parameters
    ----------
    n_queries : int or None, default=None
        Number of queries that ``calibration="zhao2017"`` is calibrated to. It has no effect on
        another calibration.
    threshold : float or "auto", default="auto"
        Deviation of the holdout score from the prediction, in units of [0, 1], from which a query
        is corrected. If "auto", it is chosen for each query from public quantities. The query of a
        batch with the best prediction or rank is then compared at a fine threshold, which depends
        on ``spending``. The others are compared at a coarse one, for means over records at least
        :math:`c \sqrt{\tilde v(1-\tilde v)(1 + n/n_D)/n_\mathrm{eff}}`. Here :math:`\tilde v` is
        the prediction, shrunken slightly towards 1/2, and :math:`n_D` is ``n_train``
        (``spending="final"``: :math:`c = 6.5`; ``"even"``: :math:`\min(1.5 + 0.9 \ln m, 5.5)` for
        ``m`` queries). A candidate that leads then may be compared again at the fine threshold.
        With a ``threshold``, ``resolution`` or ``budget``, a numeric ``epsilon`` or
        ``calibration="zhao2017"``, every query is compared once, in order.
    resolution : float or "auto", default="auto"
        Grid step of released scores in units of [0, 1], at least 1e-6. If "auto", corrected scores
        are rounded to cells around the prediction whose half-width is at most the threshold of the
        query. If every query is compared once, the step is a fraction of the
        Hoeffding half-width :math:`\sqrt{\ln(2/\beta)/(2 n_\mathrm{eff})}` of one fixed query, with
        :math:`\beta` equal to ``1 - confidence_level``; for ``calibration="zhao2017"`` it is 1e-6.
    ledger_timeout : float, default=60.0
        Longest wait for other threads and processes, in seconds.

    See Also
    --------
    sklearn_bdp.HoldoutConfig : Takes these settings as ``expert``.

    Examples
    --------
    >>> from sklearn_bdp import HoldoutConfig
    >>> from sklearn_bdp.holdout import ExpertSettings
    >>> HoldoutConfig(0.3, expert=ExpertSettings(threshold=0.02)).expert.threshold
    0.02
    """

    n_queries: int | None = None
    threshold: float | Literal["auto"] = "auto"
    resolution: float | Literal["auto"] = "auto"
    ledger_timeout: float = 60.0

    def __post_init__(self) -> None:
        self.validated()  # or raise an error

    def validated(self) -> dict[str, Any]:
        """Check all settings; return those that the header of a ledger contains.

        Returns
        -------
        dict
            Numbers, None or "auto" by name, without ``ledger_timeout``.
        """
        check_real("ledger_timeout", self.ledger_timeout, low=0.0, high=_MAX_TIMEOUT)
        n_queries = self.n_queries
        if n_queries is not None:
            n_queries = check_integer("n_queries", n_queries, low=1, high=_MAX_COUNT)
        return {
            "n_queries": n_queries,
            "threshold": _number_or_auto("threshold", self.threshold, low=1e-9, high=1.0),
            "resolution": _number_or_auto(
                "resolution", self.resolution, low=FINEST_RESOLUTION, high=1.0
            ),
        }


@with_argument_hints(
    {
        "alpha": "Set confidence_level=0.95 for a failure probability of 0.05.",
        "beta": "Set confidence_level=0.95 for a failure probability of 0.05.",
        "holdout": "Set test_size=0.25, the fraction that is held out.",
        "correlation": "It is an argument of the search: ReusableHoldoutSearchCV(correlation=...).",
        "random_state": "It is an argument of the search: ReusableHoldoutSearchCV(random_state=0).",
    }
)
@dataclasses.dataclass(frozen=True, repr=False)
class HoldoutConfig:
    """Settings of a new holdout, for the ``holdout`` parameter of searches and selectors.

    Every field except ``test_size`` is also a parameter of :class:`~sklearn_bdp.ReusableHoldout`.
    Use :meth:`set_params` for a changed copy. ``search.set_params(holdout__confidence_level=0.9)``
    changes the configuration of a search.

    Parameters
    ----------
    test_size : float or splitter, default=0.25
        Fraction of the records to hold out, or a splitter with exactly one split. Ignored if
        ``X_val`` is passed to ``fit``.
    confidence_level : float, default=0.95
        Minimum probability that all proven intervals contain their expected scores at the same
        time.
    spending : {"final", "even"}, default="final"
        Division of the failure probability ``1 - confidence_level`` between intervals. ``"final"``
        reserves 90% of it for the final report, and interim intervals are wide (O'Brien-Fleming
        boundaries in sequential trials). ``"even"`` gives narrower interim intervals and a wider
        final report (Pocock).
    epsilon : float or "auto", default="auto"
        Level of Bayesian differential privacy for all answers of the holdout, in nats. If "auto",
        the noise widens intervals of means over records by at most 10%, and the resulting level is
        reported.
    calibration : {"tight", "zhao2017"}, default="tight"
        Noise calibration. ``"zhao2017"`` runs Theorem 2 of Zhao 2017 as published. It needs
        ``budget`` and ``expert=ExpertSettings(n_queries=...)``.
    budget : int or None, default=None
        Maximum number of corrections by the holdout, those of class proportions and denominators
        included. If None, there is no maximum, or 10 with a numeric ``epsilon``.
    on_exhausted : {"raise", "nan", "cv"}, default="raise"
        Result of queries after the budget is exhausted: an error, NaN, or the cross-validated score
        without a guarantee.
    ledger : str, Path or None, default=None
        SQLite file that records every answer and is shared by all processes of a machine, or the
        URL ``"postgresql://user@host/database?holdout=name"`` for several machines. It is created
        if it does not exist. If None, answers are recorded in the memory of this process.
    allow_shared_rows : bool, default=False
        Whether more training records may equal holdout records than chance explains, as in data
        with many equal records. If True, rows are not compared, and the certificate reports it. By
        default such training records are rejected.
    expert : ExpertSettings or None, default=None
        Rarely used settings, such as the threshold or the waiting time.

    See Also
    --------
    ReusableHoldoutSearchCV : Accepts a configuration as ``holdout``.
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
    epsilon: float | Literal["auto"] = "auto"
    calibration: Literal["tight", "zhao2017"] = "tight"
    budget: int | None = None
    on_exhausted: Literal["raise", "nan", "cv"] = "raise"
    ledger: str | Path | None = None
    allow_shared_rows: bool = False
    expert: ExpertSettings | None = None

    def __post_init__(self) -> None:
        if not is_splitter(self.test_size):
            if isinstance(self.test_size, bool) or not isinstance(self.test_size, numbers.Real):
                raise TypeError(
                    "test_size must be a fraction of the records or a splitter with one split, "
                    f"got {type(self.test_size).__name__}. To keep a ledger file, pass "
                    "HoldoutConfig(ledger=path)."
                )
            check_fraction("test_size", self.test_size)
        if not isinstance(self.expert, ExpertSettings | None):
            raise TypeError(
                "expert must be an ExpertSettings from sklearn_bdp.holdout or None, got "
                f"{type(self.expert).__name__}."
            )
        self.validated()  # or raise an error
        check_option("on_exhausted", self.on_exhausted, ON_EXHAUSTED)
        checked_ledger = check_ledger(self.ledger)
        if isinstance(checked_ledger, LedgerURL):  # its text does not contain the password
            object.__setattr__(self, "ledger", checked_ledger)
        check_boolean("allow_shared_rows", self.allow_shared_rows)

    def validated(self) -> dict[str, Any]:
        """Check the parameters that determine the noise; return them for the header of a ledger.

        Returns
        -------
        dict
            Numbers, texts or None by name, those of ``expert`` included.
        """
        check_option("calibration", self.calibration, ("tight", "zhao2017"))
        budget = self.budget
        if budget is not None:
            budget = check_integer("budget", budget, low=1, high=_MAX_COUNT)
        parameters = {
            "calibration": self.calibration,
            "epsilon": _number_or_auto("epsilon", self.epsilon, low=0.0, closed="right"),
            "budget": budget,
            "spending": AlphaSpending(self.spending).name,
            "beta": failure_probability(self.confidence_level),
            **(self.expert or ExpertSettings()).validated(),
        }
        if self.calibration == "zhao2017":
            n_queries = parameters["n_queries"]
            if budget is None or n_queries is None:
                raise ValueError(
                    "calibration='zhao2017' runs Theorem 2, whose noise depends on the number of "
                    "queries and the budget. Set budget and expert=ExpertSettings(n_queries=...). "
                    f"Got n_queries={n_queries}, budget={budget}."
                )
            if self.epsilon != "auto":
                raise ValueError(
                    "calibration='zhao2017' sets the noise itself. Leave epsilon='auto', got "
                    f"epsilon={self.epsilon!r}."
                )
        return parameters

    @property
    def ledger_timeout(self) -> float:
        """Longest wait for other threads and processes, in seconds."""
        return (self.expert or ExpertSettings()).ledger_timeout

    def proof_needed_for(self, dependence: CorrelationModel, n: int) -> str:
        """Return the setting or correlation, as text, that requires proven bounds of all metrics.

        Parameters
        ----------
        dependence : CorrelationModel
            Correlation of the holdout records.
        n : int
            Number of holdout records.

        Returns
        -------
        str
            Text for messages, such as ``"epsilon=1.0"`` or the description of the correlation;
            empty if metrics without a proven bound are admitted.
        """
        if self.calibration != "tight":
            return f"calibration={self.calibration!r}"
        if self.epsilon != "auto":
            return f"epsilon={self.epsilon!r}"
        # Given all other nodes, nodes are independent. They may have different distributions,
        # which can only widen approximate intervals (theory G31). Components of several nodes
        # were not simulated. For dates, such metrics rank candidates without an interval.
        scheme = dependence.sampling_scheme(n)
        are_nodes = scheme.is_conditional and scheme.has_independent_records
        if not (are_nodes or scheme.exchangeable or scheme.calendar is not None):
            return dependence.describe()
        return ""

    def __repr__(self) -> str:
        changed_fields = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)[1:]
            if getattr(self, field.name) != field.default
        ]
        return f"HoldoutConfig({', '.join([repr(self.test_size), *changed_fields])})"

    # Searches clone a configuration and set its parameters, as those of a nested estimator.

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the fields by name.

        Parameters
        ----------
        deep : bool, default=True
            Without effect. scikit-learn passes it.

        Returns
        -------
        dict
            Every field.
        """
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @strip_traceback_frames
    def set_params(self, **changes: Any) -> HoldoutConfig:
        """Return a changed copy. The configuration itself never changes.

        Parameters
        ----------
        **changes : dict
            Fields and their new values.

        Returns
        -------
        HoldoutConfig
            The checked copy.

        Raises
        ------
        TypeError, ValueError
            If a name is not a field, or a value is invalid.
        LedgerUnavailableError
            If the ledger is a folder.
        """
        unknown_names = sorted(changes.keys() - self.get_params())
        if unknown_names:
            raise ValueError(
                f"{unknown_names[0]!r} is not a field of HoldoutConfig. Its fields are "
                f"{', '.join(self.get_params())}."
            )
        return dataclasses.replace(self, **changes)

    def __sklearn_clone__(self):
        return self


# The ledger may be a URL with a password, and frames of a traceback hold arguments.
HoldoutConfig.__init__ = strip_traceback_frames(HoldoutConfig.__init__)  # type: ignore[method-assign]


def is_splitter(value: Any) -> bool:
    """Return whether a value has the methods ``split`` and ``get_n_splits``."""
    return hasattr(value, "split") and hasattr(value, "get_n_splits")


def check_ledger(ledger: Any) -> Any:
    """Return the Backend, LedgerURL or absolute path of a ledger; None for a ledger in memory.

    Raise TypeError, ValueError or LedgerUnavailableError for an invalid location.
    """
    if ledger is None or isinstance(ledger, Backend):
        return ledger
    if is_url(ledger):
        return LedgerURL(ledger)
    # A path is the whole text. The rest of a URL may contain a password.
    leading_text, separator, _ = str(ledger).partition("://")
    if not isinstance(ledger, str | os.PathLike) or not leading_text or separator:
        raise TypeError(
            f"ledger must be a path, a postgresql:// URL or None, got {leading_text}{separator}. "
            "Pass a file: ledger='holdout.sqlite'."
        )
    if leading_text.startswith(":") or leading_text.startswith("file:"):
        raise ValueError(
            f"ledger must be a path, a postgresql:// URL or None, got ledger={leading_text!r}, "
            "which is SQLite's name of a database. Set ledger=None to keep the answers in the "
            "memory of this process, or pass the path of a file."
        )
    path = Path(ledger).expanduser().absolute()
    if os.path.isdir(path):  # Path.is_dir raises an error in a folder without access
        raise LedgerUnavailableError(
            f"ledger {path} cannot be created: it is a folder. Name a file in it."
        )
    return path


def document_config_parameters(function: Decorated) -> Decorated:
    """Complete docstring and signature of a function or class with ``**parameters``; return it.

    Fields of :class:`HoldoutConfig` except ``test_size`` replace ``**parameters`` in the signature,
    and their documentation replaces the line ``{config_parameters}`` of the docstring.
    """
    if function.__doc__ is not None:  # with python -OO, there are no docstrings
        parameter_text = _parameter_section(HoldoutConfig.__doc__)
        function.__doc__ = function.__doc__.replace("    {config_parameters}\n", parameter_text)
    initializer = function.__init__ if inspect.isclass(function) else function
    signature = inspect.signature(initializer)
    own_parameters = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    config_parameters = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type
        )
        for field in dataclasses.fields(HoldoutConfig)[1:]
    ]
    initializer.__signature__ = signature.replace(  # type: ignore[union-attr]
        parameters=[*own_parameters, *config_parameters]
    )
    return function


def _parameter_section(docstring):
    """Return text on all parameters but the first in a numpydoc docstring, indented by 4 spaces."""
    lines = inspect.cleandoc(docstring).splitlines()
    start = lines.index("Parameters") + 2
    end = lines.index("See Also")
    # Lines with the name of a parameter are not indented.
    name_lines = [i for i in range(start, end) if lines[i] and not lines[i].startswith(" ")]
    section = "\n".join(lines[name_lines[1] : end]).rstrip()
    return "".join(f"    {line}\n" if line else "\n" for line in section.splitlines())


def _number_or_auto(name, value, *, low, high=math.inf, closed="both"):
    """Return a number between ``low`` and ``high`` as a float, or the text "auto".

    ``closed``: ends that are admitted, "both" or "right". ``name``: of the parameter, for errors.
    Raise TypeError or ValueError for another value.
    """
    if isinstance(value, str):
        if value == "auto":
            return value
        raise ValueError(
            f"{name} must be a number above {low:g} or 'auto', got {name}={value!r}. Leave "
            f"{name}='auto' unless you need a fixed one."
        )
    return check_real(name, value, low=low, high=high, closed=closed)
