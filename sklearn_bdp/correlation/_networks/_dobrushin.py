"""Any graph with weak dependence: how far a change of one record reaches (Dobrushin)."""

import numpy as np
from scipy import sparse


def dobrushin_reach(matrix, components):
    """Return ``r >= (I - C)^{-1} 1``, expected records that feel a change of each record.

    ``C_ij = tanh(diameter_ij / 4)`` bounds how far record ``j`` moves the distribution of ``i``
    given all others. Where the series diverges in a component the entries are infinite.

    They are the martingale differences of any query, in units of its sensitivity. ``matrix`` holds
    symmetric edge diameters in nats. The same numbers bound the leakage: :func:`reach_factor`.

    The same numbers bound the leakage: :func:`reach_factor`.

    Dobrushin 1970; Kuelske 2003, Concentration inequalities for functions of Gibbs fields,
    Theorem 1 (the past of an order only fixes records, which removes rows of ``C``).
    """
    contraction = sparse.csr_array(
        (np.tanh(matrix.data / 4.0), matrix.indices, matrix.indptr), shape=matrix.shape
    )
    reach = np.ones(matrix.shape[0])
    for _ in range(500):
        new = 1.0 + contraction @ reach
        done = new.max() > 1e6 or float((new - reach).max()) <= 1e-10 * float(new.max())
        reach = new
        if done:
            break
    reach = reach * (1.0 + 1e-6)
    # Only a super-solution bounds the series from above: r >= 1 + C r, component by component.
    fails = reach < 1.0 + contraction @ reach
    bad = np.zeros(int(components.max()) + 1, dtype=bool)
    bad[components[fails]] = True
    return np.where(bad[components], np.inf, reach)


def reach_factor(matrix, reach):
    """Return factors ``f_i >= 1`` with BDP level at most ``f_i * dp_epsilon`` for record ``i``.

    Infinite where the route does not apply; ``reach`` comes from :func:`dobrushin_reach`.

    Let ``delta_k`` be the largest log-ratio of the mechanism's density when record ``k`` alone
    changes: ``dp_epsilon`` for every record. Replacing the density by its average over a fresh
    draw of record ``j`` given all others keeps its conditional expectation given the records an
    adversary knows, sets ``delta_j = 0`` and adds at most
    ``4 artanh(tanh(diameter_jk / 4) tanh(delta_j / 4)) <= tanh(diameter_jk / 4) delta_j`` to
    the neighbours ``k`` (Birkhoff). Repeating this everywhere but at record ``i`` carries all
    of ``delta`` to ``i`` or out of the system, so the leakage is at most ``dp_epsilon`` times
    the weight of all walks that end at ``i`` and visit it once,
    ``[(I-C)^{-1} 1]_i / [(I-C)^{-1}]_{ii}``; the denominator is at least
    ``1 + sum_k C_ik^2``. Known records only remove walks.
    """
    squares = sparse.csr_array(
        (np.tanh(matrix.data / 4.0) ** 2, matrix.indices, matrix.indptr), shape=matrix.shape
    ).sum(axis=1)
    return np.maximum(reach / (1.0 + squares), 1.0)
