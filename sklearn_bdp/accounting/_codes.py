"""Information spent by the answers given so far, in nats.

A transcript is coded as it grows: one code for the above/below decisions, one for the released
values, one for the batch and the place in it. The lengths obey Kraft's inequality, so they are the
weights of a union bound over everything the analyst could have asked (theory G2′). All functions
are pure; nothing here sees data.
"""

import math

import numpy as np
from scipy.special import gammaln

from sklearn_bdp._checks import check_array, check_integer, check_probability, check_real
from sklearn_bdp.mechanisms import n_cells, to_cell

__all__ = ["DecisionCode", "code_length", "decision_nats", "leakage_code_length", "value_code"]

_LOG_PI = math.log(math.pi)


def decision_nats(n_answered, n_above):
    r"""Code length of ``n_above`` "above" decisions among ``n_answered``, in nats.

    Parameters
    ----------
    n_answered, n_above : int or array of int
        Decisions made so far, and how many of them were "above".

    Returns
    -------
    float or ndarray
        :math:`-\ln KT(b, k)`.

    References
    ----------
    Krichevsky and Trofimov, *The performance of universal encoding*, IEEE Trans. Inf. Theory 27
    (1981); theory G2′.
    """
    k = np.asarray(n_answered, dtype=float)
    b = np.asarray(n_above, dtype=float)
    if not (np.isfinite(k).all() and np.isfinite(b).all() and ((b >= 0) & (b <= k)).all()):
        raise ValueError(
            f"n_above must be between 0 and n_answered, got n_above={n_above!r}, "
            f"n_answered={n_answered!r}."
        )
    # Theory G2′: KT(b, k) = Γ(b+½) Γ(k−b+½) / (π Γ(k+1)).
    nats = _LOG_PI + gammaln(k + 1) - gammaln(b + 0.5) - gammaln(k - b + 0.5)
    nats = np.maximum(nats, 0.0)
    return float(nats) if nats.ndim == 0 else nats


def code_length(
    *,
    n_answered,
    n_above,
    value_nats,
    batch_size,
    batch_index,
    batch_cap=None,
    decisions=None,
):
    r"""Code length of each query of the next batch, in nats (the information spent).

    Every query of a batch that is fixed before any of its answers is seen gets the length

    .. math:: \ell = \text{decisions} + \text{values} + \ln m_t + \ln \omega_t^{-1},

    with :math:`\omega_t = 1/(t(t+1))`, or ``1 / batch_cap``. The weights :math:`e^{-\ell}` of all
    queries that could ever be asked sum to at most 1.

    Parameters
    ----------
    n_answered, n_above : int
        Queries answered before this batch, and how many of them were "above".
    value_nats : float
        Sum of :func:`value_code` over the earlier "above" answers.
    batch_size : int
        Number of queries in the batch, fixed in advance.
    batch_index : int
        1 for the first batch, 2 for the second, and so on.
    batch_cap : int or None
        Largest number of batches, declared before the first. ``None``: no cap.
    decisions : float or None
        Code length of the above/below decisions, for instance ``DecisionCode.nats``. ``None``:
        :func:`decision_nats` of the counts.

    Returns
    -------
    float or ndarray
        Nats; all but ``batch_cap`` may be arrays.

    Raises
    ------
    ValueError
        If a count is out of range, or ``batch_index`` exceeds ``batch_cap``.

    References
    ----------
    Theory G2′.
    """
    m = np.asarray(batch_size, dtype=float)
    t = np.asarray(batch_index, dtype=float)
    values = np.asarray(value_nats, dtype=float)
    for name, array, low in (
        ("batch_size", m, 1),
        ("batch_index", t, 1),
        ("value_nats", values, 0),
    ):
        if not (np.isfinite(array).all() and (array >= low).all()):
            raise ValueError(f"{name} must be finite and at least {low}, got {name}={array!r}.")
    coded = decision_nats(n_answered, n_above)
    if decisions is not None:
        coded = np.asarray(decisions, dtype=float)
        if not (np.isfinite(coded).all() and (coded >= 0).all()):
            raise ValueError(f"decisions must be finite and at least 0, got {decisions!r}.")
    if batch_cap is None:
        order = np.log(t) + np.log1p(t)
    else:
        cap = check_integer("batch_cap", batch_cap, low=1)
        if not (t <= cap).all():
            raise ValueError(
                f"batch_index must be at most batch_cap={cap}, got batch_index={batch_index!r}."
            )
        order = math.log(cap)
    nats = coded + values + np.log(m) + order
    return float(nats) if np.ndim(nats) == 0 else nats


def leakage_code_length(*, information, failure, batch_size, batch_index, batch_cap=None):
    r"""Code length of each query of a batch when a lifetime leakage is fixed, in nats.

    For a holdout whose noise meets one DP level for its whole life the answers given so far need
    not be coded at all: the length depends on the batch only,

    .. math:: \ell = (\sqrt K + \sqrt{\ln(1/\beta)})^2 - \ln(1/\beta) + \ln m_t
       + \ln\omega_t^{-1}.

    It takes the place of :func:`code_length` in :func:`answer_intervals`. Which of the two is used
    has to be decided before any answer, or ``failure`` divided between them.

    Parameters
    ----------
    information : float
        K in nats: ``model.sequential_information(dp_epsilon, n)`` at the lifetime level.
    failure : float
        Failure probability of sampling, the one passed to :func:`answer_intervals`.
    batch_size : int
        Number of queries in the batch, fixed in advance.
    batch_index : int
        1 for the first batch, 2 for the second, and so on.
    batch_cap : int or None
        Largest number of batches, declared before the first; ``None``: no cap.

    Returns
    -------
    float or ndarray
        Nats.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    References
    ----------
    Theory G1, union inside.
    """
    known = check_real("information", information, low=0.0)
    surprise = -math.log(check_probability("failure", failure))
    batch = code_length(
        n_answered=0,
        n_above=0,
        value_nats=0.0,
        batch_size=batch_size,
        batch_index=batch_index,
        batch_cap=batch_cap,
    )
    # (√K + √s)² − s, expanded: no cancellation.
    return known + 2.0 * math.sqrt(known * surprise) + batch


class DecisionCode:
    """Sequential code of above/below decisions: a mixture of two experts.

    One expert is Krichevsky-Trofimov's: a constant unknown rate. The other expects "above"
    decisions in clusters: ``r`` decisions after the last "above" (or the start) the next is
    "above" with probability ``½/(r + 1)``. An adaptive search starts with a few corrections and
    then runs quietly, which the second expert codes far shorter; the mixture is never more than
    ``ln 2`` longer than the better of them.

    Parameters
    ----------
    n_answered, n_above, run : int
        Decisions seen, how many were "above", and how many since the last of those (to continue
        from ``state()``).
    run_nats : float
        Code length of the second expert.

    Attributes
    ----------
    nats : float
        Code length of the decisions seen so far.

    References
    ----------
    Theory G2′ (any sequential code is as valid as Krichevsky-Trofimov's).

    Examples
    --------
    >>> code = DecisionCode()
    >>> code.update([True, True, False, False, False])
    >>> bool(code.nats < decision_nats(5, 2))
    True
    """

    def __init__(self, n_answered=0, n_above=0, run=0, run_nats=0.0):
        self._answered = check_integer("n_answered", n_answered, low=0)
        self._above = check_integer("n_above", n_above, low=0, high=self._answered)
        self._run = check_integer("run", run, low=0, high=self._answered)
        self._run_nats = check_real("run_nats", run_nats, low=0.0)

    @property
    def nats(self):
        """Code length so far, in nats."""
        if self._answered == 0:
            return 0.0
        kt = decision_nats(self._answered, self._above)
        return max(0.0, math.log(2.0) - float(np.logaddexp(-kt, -self._run_nats)))

    def update(self, above):
        """Append decisions.

        Parameters
        ----------
        above : array of bool, shape (k,), or bool
            Decisions in the order they were made.
        """
        decisions = np.atleast_1d(np.asarray(above, dtype=bool))
        at = np.flatnonzero(decisions)
        run = self._run
        last = -1
        for position in at:
            end = run + int(position) - last - 1
            self._run_nats += _quiet_nats(run, end) + math.log(2.0 * (end + 1))
            run, last = 0, int(position)
        end = run + decisions.size - last - 1
        self._run_nats += _quiet_nats(run, end)
        self._run = end
        self._answered += decisions.size
        self._above += at.size

    def state(self):
        """Return the arguments that rebuild this code.

        Returns
        -------
        dict
            JSON-able; public, like the decisions.
        """
        return {
            "n_answered": self._answered,
            "n_above": self._above,
            "run": self._run,
            "run_nats": self._run_nats,
        }


def _quiet_nats(start, end):
    # −ln ∏_{i=start}^{end−1} (i + ½)/(i + 1), the complements of ½/(i + 1).
    return max(
        0.0,
        math.lgamma(start + 0.5)
        - math.lgamma(start + 1)
        - math.lgamma(end + 0.5)
        + math.lgamma(end + 1),
    )


def value_code(prediction, value, *, resolution, scale):
    r"""Code length of a released value given its public prediction, in nats.

    The distribution over the cells ``[jη, (j+1)η)`` is that of a Cauchy variable of the given
    scale around
    the prediction, the end cells taking the tails: it is normalised exactly, an ordinary
    correction is cheap and a surprise costs :math:`2\ln` of its distance.

    Parameters
    ----------
    prediction : float or array
        Public prediction of the value (any finite number).
    value : float or array
        The released value, in [0, 1], on the grid.
    resolution : float
        Grid step η, in (0, 1].
    scale : float or array
        Public scale of an ordinary distance, for instance the threshold.

    Returns
    -------
    float or ndarray
        :math:`-\ln \pi(\text{cell} \mid \text{prediction})`.

    Raises
    ------
    ValueError
        If ``value`` is not in [0, 1], or the scale is not positive.

    References
    ----------
    Theory G4 (any fixed distribution over the cells may replace ``ln V``).
    """
    cells = n_cells(resolution)
    center = check_array("prediction", prediction)
    released = check_array("value", value, low=0.0, high=1.0)
    width = check_array("scale", scale)
    if not (width > 0).all():
        raise ValueError(f"scale must be positive, got scale={scale!r}.")
    cell = to_cell(released, resolution).astype(float)
    nats = -np.log(_cauchy_mass(cell, cells, center, width, resolution))
    return float(nats) if nats.ndim == 0 else nats


def _cauchy_mass(cell, cells, center, width, resolution):
    """Mass of each cell; differences of arctangents without cancellation in the tails."""
    left = np.where(cell == 0, -np.inf, (cell * resolution - center) / width)
    right = np.where(cell == cells - 1, np.inf, ((cell + 1) * resolution - center) / width)
    # P[left < C < right] = angle between the directions (1, left) and (1, right), over π.
    x_left, y_left = np.where(np.isinf(left), 0.0, 1.0), np.where(np.isinf(left), -1.0, left)
    x_right, y_right = np.where(np.isinf(right), 0.0, 1.0), np.where(np.isinf(right), 1.0, right)
    angle = np.arctan2(x_left * y_right - y_left * x_right, x_left * x_right + y_left * y_right)
    whole = np.isinf(left) & np.isinf(right)
    return np.where(whole, 1.0, angle / math.pi)
