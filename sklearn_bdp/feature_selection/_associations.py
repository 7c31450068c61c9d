"""Which associations a closed holdout proves: permutations, and intervals that agree with them."""

import math

import numpy as np
from scipy.stats import false_discovery_control

#: Permutations that reach the critical value of an interval by chance; a few, where more would take
#: so many multiplications; and where even they would take so many, nothing is proved.
_DEPTH, _SHALLOW, _WORK, _MOST = 20.0, 4.0, 1e11, 1e12
_LEAST = 20_000  # permutations that are always drawn
_CHUNK = 2_000_000  # numbers of a block of permutations
_ROUNDED = 1e-4  # how far a statistic may be off: it counts against a claim


def permuted(bounded, scores, column, *, level, rng):
    r"""Return covariances, standard errors, p-values and the half-widths of intervals.

    Theory G30. For attribute ``j`` with scores ``b`` and targets with scores ``s`` the statistic is
    :math:`t = \operatorname{cov}(b, s) / \operatorname{se}`, with the larger of two standard
    errors: of the mean of :math:`(b_i - \bar b)(s_i - \bar s)`, and of a correlation without
    association (a rare attribute that a rare class lacks seems to vary too little). If targets are
    independent of the attribute, permuted ones are as likely: of ``B`` permutations and the data
    themselves each is as likely to have the largest ``|t|`` (Phipson and Smyth 2010),

    .. math:: p = (1 + \#\{|t^*| \ge |t|\}) / (B + 1),

    whatever the distributions are. The half-width is ``se`` times the ``|t*|`` that leaves out the
    share ``level``: it is below :math:`|\operatorname{cov}|` exactly where ``p <= level``. Because
    the statistic is studentized it covers other covariances than 0, too, as nearly as a t interval
    does (Janssen 1997; Chung and Romano 2013).

    Parameters
    ----------
    bounded : ndarray of shape (n, m)
        Scores of the attributes, in [-1, 1].
    scores : ndarray of shape (n, n_columns)
        Scores of the targets, in [-1, 1].
    column : ndarray of shape (m,)
        Which of them an attribute is compared with.
    level : float
        Level of a two-sided interval.
    rng : numpy.random.Generator
        Draws the permutations, the same ones for all attributes.

    Returns
    -------
    tuple
        Covariance, p-value and half-width of each attribute, and the number of permutations.
    """
    n, m = bounded.shape
    b = (bounded - bounded.mean(axis=0)).astype(np.float32)
    s = (scores - scores.mean(axis=0)).astype(np.float32)
    count = math.ceil(min(_DEPTH / level, max(_SHALLOW / level, _WORK / (n * m))))
    count = max(_LEAST, count if n * max(m, 500) * count <= _MOST else 0)
    allowed = math.floor(level * (count + 1) + 1e-9) - 1  # exceedances at which p is at the level

    def statistics(rows):
        """Return covariance and t of each attribute (rows of the result) under permutations."""
        cov, t = np.zeros((2, m, len(rows)), dtype=np.float32)
        for one in np.unique(column):
            own, drawn = np.flatnonzero(column == one), s[rows, one].T
            cov[own] = b[:, own].T @ drawn / n
            alike = ((b[:, own] ** 2).mean(axis=0) * (s[:, one] ** 2).mean())[:, None]
            spread = (b[:, own] ** 2).T @ drawn**2 / n - cov[own] ** 2
            t[own] = cov[own] / np.sqrt(np.maximum(np.maximum(spread, alike), 1e-12) / n)
        return cov, t

    cov, t = (part[:, 0] for part in statistics(np.arange(n)[None, :]))
    error = np.divide(np.abs(cov), np.abs(t), out=np.zeros(m, np.float32), where=t != 0)
    reached, largest = np.zeros(m), np.zeros((m, 0), dtype=np.float32)
    block = max(1, _CHUNK // max(n, m))
    for start in range(0, count, block):
        rows = np.tile(np.arange(n), (min(block, count - start), 1))
        drawn = np.abs(statistics(rng.permuted(rows, axis=1))[1])
        reached += (drawn >= (np.abs(t) - _ROUNDED)[:, None]).sum(axis=1)
        largest = np.concatenate([largest, drawn], axis=1)
        if largest.shape[1] > allowed + 1:
            largest = np.partition(largest, -allowed - 1, axis=1)[:, -allowed - 1 :]
    critical = largest.min(axis=1) + _ROUNDED if allowed >= 0 else np.full(m, np.inf)
    half = np.where(error > 0, critical * error, np.inf)
    return cov.astype(float), (1.0 + reached) / (count + 1.0), half.astype(float), count


def holm(p):
    """Return p-values adjusted by Holm (1979): valid together, whatever depends on what."""
    order, m = np.argsort(p, kind="stable"), len(p)
    adjusted = np.empty(m)
    adjusted[order] = np.maximum.accumulate(p[order] * (m - np.arange(m)))
    return np.minimum(adjusted, 1.0)


def proved_associations(bounded, scores, column, *, beta, length, rng):
    """Return what a report holds of each attribute: value, ends, p, q, q under any dependence.

    P-values are adjusted by Holm, by Benjamini and Hochberg, and by Benjamini and Yekutieli, and
    multiplied by ``exp(length)``, the price of what was released before the attributes were fixed.
    An interval excludes 0 exactly where ``p`` is at most ``beta``: Holm proves a few more
    attributes than intervals at equal levels do, and of these only the sign.
    """
    price, m = math.exp(length), len(column)
    value, p, half, count = permuted(bounded, scores, column, level=beta / price / m, rng=rng)
    lower, upper = np.maximum(value - half, -1.0), np.minimum(value + half, 1.0)
    adjusted = np.minimum(price * holm(p), 1.0)
    only_sign = (adjusted <= beta) & (lower <= 0.0) & (upper >= 0.0)
    lower = np.where(only_sign & (value > 0.0), np.nextafter(0.0, 1.0), lower)
    upper = np.where(only_sign & (value < 0.0), np.nextafter(0.0, -1.0), upper)
    rates = [
        np.minimum(price * false_discovery_control(p, method=one), 1.0) for one in ("bh", "by")
    ]
    return np.column_stack([value, lower, upper, adjusted, *rates]), count
