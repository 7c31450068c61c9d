"""The noisy comparison of Thresholdout, vectorised between "above" events."""

import os
from fractions import Fraction

import numpy as np

from sklearn_bdp.mechanisms._noise import Exponentials

# Query noise per draw: a first one for whoever asks little, later ones large enough to hide call
# overhead and small enough for cache.
_FIRST, _BLOCK = 64, 4096


class NoisyThreshold:
    """Find the margins that, with fresh noise each, exceed one noisy level.

    Query noise is drawn in blocks of fixed sizes and used in order, one variate per query, so
    that the outcome does not depend on how queries are batched. Laplace noise is an exact real
    number: what doubles cannot decide is decided with more random bits.

    ``bits`` is the source of query noise of that scale, ``draw_level`` returns fresh threshold
    noise, anew after every hit with ``refresh``. Margins and levels are multiples of ``step``.
    """

    def __init__(self, bits, draw_level, *, scale, noise, step, refresh):
        self._bits = bits
        self._draw_level = draw_level
        self._scale = scale
        self._gaussian = noise == "gaussian"
        self._exact = not self._gaussian and scale > 0.0
        # |computed - exact| < 16 steps g: the scale (at most 4 * 2**44 g) times the variate's error
        # 2**-50 (1 + E), E < 2**7, is 8 g; the roundings of product and sum add at most 1 g each.
        # Whatever is closer to the level than that is decided exactly.
        self._slack = 16.0 * step if self._exact else 0.0
        self._refresh = refresh
        self._noise, self._used = np.empty(0), 0
        self._size = _FIRST
        self._owner = os.getpid()
        self.level = None
        self.level_used = False

    def draw_level(self):
        """Draw the threshold noise anew."""
        self.level = self._draw_level()
        self.level_used = False

    def room(self):
        """Return how many queries the current block has noise for; at least 1."""
        # A forked child draws a block of its own: parent and child must not share noise.
        if self._used == self._noise.size or self._owner != os.getpid():
            self._block = Exponentials(self._bits, self._size)
            if self._gaussian:
                angle = (2.0 * np.pi * 2.0**-64) * self._bits.words(self._size)
                standard = np.sqrt(2.0 * self._block.values) * np.cos(angle)
            else:
                standard = self._block.signs * self._block.values
            self._noise = self._scale * standard
            self._used, self._owner, self._size = 0, os.getpid(), _BLOCK
        return self._noise.size - self._used

    def scan(self, margins, *, most=None):
        """Compare margins with the level, in order; stop after ``most`` hits.

        Margins are multiples of the grid's step, at most `room` of them. Returned are the indices
        found above, and how many were compared: up to and including the last allowed hit, or all.
        """
        noisy = margins + self._noise[self._used : self._used + margins.size]
        hits, position = [], 0
        while position < noisy.size and len(hits) != most:
            self.level_used = True
            position = noisy.size
            for index in self._hits(noisy, margins, start=hits[-1] + 1 if hits else 0):
                hits.append(index)
                if self._refresh:
                    self.draw_level()
                if self._refresh or len(hits) == most:
                    position = index + 1
                    break
        self._used += position
        return hits, position

    def _hits(self, noisy, margins, *, start):
        """Yield the indices of margins above the present level, exactly."""
        level = self.level
        for index in _exceeding(noisy, start, level - self._slack):
            if self._exact and noisy[index] <= level + self._slack:
                gap = Fraction(level) - Fraction(float(margins[index]))
                if not self._noise_exceeds(self._used + index, gap):
                    continue
            yield index

    def _noise_exceeds(self, index, gap):
        """Return whether the exact Laplace variate is larger than ``gap``."""
        bound = gap / Fraction(self._scale)
        if self._block.signs[index] > 0:
            return self._block.exceeds(index, bound)
        return bound < 0 and not self._block.exceeds(index, -bound)


def _exceeding(noisy, start, level):
    """Yield the indices from ``start`` on where ``noisy`` exceeds ``level``.

    Looks at the whole block first, and after a hit a few entries at a time: where hits are dense
    the level will have changed by then.
    """
    width = 32 if start else noisy.size
    while start < noisy.size:
        found = np.flatnonzero(noisy[start : start + width] > level)
        yield from (start + found).tolist()
        start += width
        width *= 4
