"""Exact noise from random bits.

A textbook Laplace sampler computes ``-scale * log(u)`` for one of 2**53 values of ``u``; which
doubles it can reach depends on the value the noise is added to, and that difference gives the
value away (Mironov 2012). Here an exponential variate ``E = -ln U`` is a *real* number, given by
the leading bits of ``U`` and extended by more bits when a comparison needs them (the
random-bit model of Devroye and Gravel). Comparisons and integer parts are therefore exact. Doubles
only decide the comparisons that are far from equality.

Theory T2.

References
----------
.. [1] I. Mironov, "On significance of the least significant bits for differential privacy",
   CCS 2012.
.. [2] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy",
   NeurIPS 2020 (the discrete Laplace distribution, Section 5.1 of arXiv:2004.00010).
.. [3] L. Devroye, C. Gravel, "Random variate generation using only finitely many unbiased,
   independently and identically distributed random bits", arXiv:1502.02539.
"""

import decimal
import functools
import hashlib
import itertools
import math
import os
from fractions import Fraction

import numpy as np

from sklearn_bdp.utils.validation import check_integer

FINEST_STEP = 2.0**-44  # smallest step of the fine grid
_PREFIX_BITS = 63  # bits of U taken from the first word; its last bit is the sign
_MIN_PREFIX = 2**53  # a prefix of U this large determines E to double precision


def bit_sources(random_state, count, *, key=()):
    """Return ``count`` independent functions that map a size to an array of uniform 64-bit words.

    ``random_state=None`` uses the operating system's cryptographic generator. An int or a Generator
    makes the words reproducible, which voids the protection (for tests). 32 secret random bytes
    make them reproducible for their owner only. ``key`` is a tuple of integers, not used if
    ``random_state`` is None: the same int or bytes with another key give other words.
    """
    if random_state is None:
        return [lambda size: np.frombuffer(os.urandom(8 * size), dtype=np.uint64)] * count
    if isinstance(random_state, bytes):
        return [_secret_words(random_state, (*key, index)) for index in range(count)]
    if isinstance(random_state, np.random.Generator):
        entropy = [int(word) for word in random_state.integers(0, 2**32, size=8)]
    else:
        entropy = check_integer("random_state", random_state, low=0)
    seeds = [np.random.SeedSequence(entropy, spawn_key=(*key, index)) for index in range(count)]
    generators = [np.random.Generator(np.random.PCG64(seed)) for seed in seeds]
    return [
        functools.partial(generator.integers, 0, 2**64, dtype=np.uint64) for generator in generators
    ]


def _secret_words(secret, key):
    """Return a function that maps a size to an array of 64-bit words, by SHAKE-256.

    They depend on the bytes ``secret``, the tuple ``key``, and the number of earlier calls only.
    """
    call_numbers = itertools.count(1)

    def words(size):
        stream = hashlib.shake_256(secret + repr((*key, next(call_numbers))).encode())
        return np.frombuffer(stream.digest(8 * size), dtype=np.uint64)

    return words


def fine_step(*scales):
    """Return the step of the grid on which noise of at most these scales is drawn.

    The step is a power of two, so that multiples up to 2**52 steps are exact doubles. It is 2**-44
    for scales up to 4 and larger beyond, so that noise of up to 64 times its scale (more has a
    probability below 1e-27) is exact.
    """
    largest_scale = max(4.0, *scales)
    return FINEST_STEP * 2.0 ** math.ceil(math.log2(largest_scale / 4.0))


def to_grid(values, step):
    """Return values rounded to multiples of ``step``.

    Halves are rounded up, so that values ``d`` apart are at most ``ceil(d / step)`` steps apart.
    """
    return np.floor(values / step + 0.5) * step


class Exponentials:
    """A block of signed exponential variates, exact under comparison.

    ``values`` are doubles within ``2**-50 * (1 + E)`` of the variates ``E``. ``signs`` are
    independent and fair, 1 or -1. ``bits`` comes from :func:`bit_sources`, ``size`` is the number
    of variates. Comparisons may draw further bits from the same source.
    """

    def __init__(self, bits, size):
        self._bits = bits
        words = bits(size)  # a sign and 63 leading bits of a uniform variate each
        self.signs = 1.0 - 2.0 * (words & np.uint64(1))
        self._prefix = words >> np.uint64(1)
        self._extended = {}  # prefix and length of extended variates, by index
        with np.errstate(divide="ignore"):
            self.values = -np.log(self._prefix * 2.0**-_PREFIX_BITS)
        # Error: prefix cut and rounded, 2**-52 relative; log within 4 units in the last place.
        # One prefix in a thousand has too few significant bits for that and is extended.
        for index in np.flatnonzero(self._prefix < _MIN_PREFIX).tolist():
            prefix, length = self._prefix_and_length(index)
            while prefix < _MIN_PREFIX:
                prefix, length = self._extend(index)
            self.values[index] = -math.log(prefix / (1 << length))

    def _prefix_and_length(self, index):
        """Return the bits drawn for the uniform variate of an index, and their number.

        The bits are the integer of its first binary places.
        """
        return self._extended.get(index, (int(self._prefix[index]), _PREFIX_BITS))

    def _extend(self, index):
        """Draw another word of bits for a uniform variate; return its prefix and length."""
        prefix, length = self._prefix_and_length(index)
        self._extended[index] = ((prefix << 64) | int(self._bits(1)[0]), length + 64)
        return self._extended[index]

    def exceeds(self, index, bound):
        """Return whether the variate of an index is larger than ``bound``, exactly.

        ``bound`` is a Fraction. If it is at least 0, the probability is exactly ``exp(-bound)``.
        """
        if bound <= 0:
            return True
        prefix, length = self._prefix_and_length(index)
        while True:
            # U lies in [prefix, prefix + 1) / 2**length, and E > bound means U < exp(-bound). The
            # Decimals `lower` and `upper` enclose exp(-bound) * 2**length.
            lower, upper = scaled_exp(bound, length)
            if prefix + 1 <= lower:
                return True
            if prefix >= upper:
                return False
            prefix, length = self._extend(index)

    def floor(self, factor):
        """Return the integer parts of ``factor * E`` for a positive integer ``factor``, exactly.

        Geometric variates: the value is at least ``k`` with probability ``exp(-k/factor)``.
        """
        scaled = factor * self.values
        integer_parts = np.floor(scaled).astype(np.int64)
        max_errors = factor * (1.0 + self.values) * 2.0**-49
        is_uncertain = np.abs(scaled - np.rint(scaled)) <= max_errors
        for index in np.flatnonzero(is_uncertain).tolist():
            integer_part = int(integer_parts[index])
            while self.exceeds(index, Fraction(integer_part + 1, factor)):
                integer_part += 1
            while not self.exceeds(index, Fraction(integer_part, factor)):
                integer_part -= 1
            integer_parts[index] = integer_part
        return integer_parts


def scaled_exp(bound, length):
    """Return a lower and an upper bound of ``exp(-bound) * 2**length``, as Decimals.

    ``bound`` is a Fraction, ``length`` an integer.
    """
    n_digits = 25 + int(0.302 * length)
    with decimal.localcontext(prec=n_digits) as decimal_context:
        decimal_context.Emin = decimal.MIN_EMIN
        decimal_context.Emax = decimal.MAX_EMAX
        exponent = decimal.Decimal(bound.numerator) / decimal.Decimal(bound.denominator)
        value = (-exponent).exp() * (decimal.Decimal(2) ** length)
        # Division, exp, power and product are each correct to one unit in the last digit.
        error = value * (exponent + 4) * decimal.Decimal(10) ** (2 - n_digits)
        return value - error, value + error


def grid_laplace(bits, size, *, scale, step):
    """Return at least one and at most ``size`` discrete Laplace variates on a grid.

    ``P[k * step]`` is proportional to ``exp(-|k| / t)`` with ``t = ceil(scale / step)``, so that
    the scale of the noise is never below ``scale``. ``bits`` comes from :func:`bit_sources`.
    ``size`` is the number of signed geometric proposals, of which negative zeros are rejected.
    """
    # Canonne, Kamath, Steinke 2020, Alg. 2: a signed geometric variate without its negative zero,
    # because 0 would otherwise count twice.
    accepted = np.empty(0)
    while not accepted.size:
        exponentials = Exponentials(bits, size)
        magnitudes = exponentials.floor(math.ceil(scale / step))  # in steps
        is_accepted = (magnitudes > 0) | (exponentials.signs > 0)
        accepted = (exponentials.signs * magnitudes * step)[is_accepted]
    return accepted


def grid_gaussian(bits, size, *, scale, step):
    """Return ``size`` Gaussian variates of standard deviation ``scale``, as multiples of ``step``.

    ``bits`` comes from :func:`bit_sources`. These variates are not exact: round released values to
    cells (``resolution > 0``).
    """
    return np.rint(scale * gaussian(Exponentials(bits, size), bits) / step) * step


def gaussian(exponentials, bits):
    """Return one standard Gaussian variate for each variate of :class:`Exponentials`.

    It is by Box and Muller, in doubles. ``bits``, from :func:`bit_sources`, draws angles.
    """
    angles = (2.0 * np.pi * 2.0**-64) * bits(exponentials.values.size)
    return np.sqrt(2.0 * exponentials.values) * np.cos(angles)


class Pool:
    """Variates drawn in blocks and returned in order.

    ``draw()`` returns the next block, which is not empty. A forked child starts a new block: parent
    and child must not share noise.
    """

    def __init__(self, draw):
        self._draw = draw
        self._block = np.empty(0)
        self._n_used = 0  # variates of the block
        self._owner = os.getpid()  # process that drew the block

    def take(self, count):
        """Return the next ``count`` variates as an array."""
        slices = [np.empty(0)]
        n_missing = count
        while n_missing:
            if self._n_used == self._block.size or self._owner != os.getpid():
                self._block = self._draw()
                self._n_used = 0
                self._owner = os.getpid()
            variates = self._block[self._n_used : self._n_used + n_missing]
            self._n_used += variates.size
            n_missing -= variates.size
            slices.append(variates)
        return np.concatenate(slices)
