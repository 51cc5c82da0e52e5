"""How CKKS is set up so that it gives exact sums of fixed-point values, and why that is safe.

``cipher`` encrypts, adds and decrypts through SEAL, ``parallel`` does so on all cores, and ``sums``
has the two sides of a secure sum.

Parameters. Contributions are only added, never multiplied: one prime q of 58 bits and ring degree
N = 4096 are enough. The homomorphic encryption standard allows 109 bits for 128-bit security at
this degree, and 58 bits for 256-bit security. N/2 complex slots carry N real values: two a slot.

Noise. A value is a whole number k of steps of ``2**-f`` and is encoded with scale D, the *grid*.
Symmetric encryption adds an error with independent coefficients, sub-Gaussian with deviation
s <= 3.25 (centered binomial, sqrt(10.5) = 3.24, or clipped normal, 3.2), and encoding rounds every
coefficient by at most 1/2 (deviation sqrt(1/12)). The real or imaginary part of a slot is a sum of
the N coefficients, each times a cosine or a sine, so that after adding n parties its error has
deviation::

    sigma(n) = sqrt(n * N/2 * (s**2 + 1/12))                                                    (1)

and exceeds 12 sigma with probability at most 2 exp(-72) < 2**-102.

Exactness. The grid D is the smallest power of two that is at least 28 sigma(n). So the noise stays
within 12 sigma of a grid point, while grid points lie 28 sigma apart: rounding to the nearest one
removes all of it, and 2 sigma are left for float64 arithmetic, whose error has a measured deviation
below 0.2 sigma. What remains is that every party rounds its value to a step, by at most half of
one::

    error <= n * 2**-(f + 1)                                                                    (2)

Range. Coefficients of n encoded vectors are at most sqrt(2) * D * sum|k|; they must stay below
q/2 > 2**57 - 2**50, and doubles must hold them. So sums are limited to::

    sum|k| <= 2**56 / D                                                                         (3)

Why not CKKS as it comes? Its decrypted values carry the noise, and whoever has a ciphertext and
its noisy decryption can solve for the secret key (Li and Micciancio, "On the security of
homomorphic encryption on approximate numbers", Eurocrypt 2021). When the server is to read the sum
it has both. Rounded to the grid, a decryption says the sum and nothing about the noise.

Integrity. A ciphertext of another key, or a damaged one, decrypts to uniform noise: each of its N
values lies within 12 sigma of a grid point with probability below 24/28, and all 4096 of them
never. So such a ciphertext is refused, not read as a wrong sum.
"""

import math

DEGREE = 4096
MODULUS_BITS = 58
FRACTION_BITS = 28

_NOISE = 3.25
_TAIL = 12
_CELL = 28
_RANGE_BITS = 56


def noise_deviation(parties: int) -> float:
    """Equation (1): deviation of a value's noise, in units of the ciphertext."""
    return math.sqrt(parties * DEGREE / 2 * (_NOISE**2 + 1 / 12))


def noise_bound(parties: int) -> float:
    """Largest noise that is taken for noise; more means a damaged ciphertext or another key."""
    return _TAIL * noise_deviation(parties)


def grid_step(parties: int) -> int:
    """The scale D: distance of neighboring values, in units of the ciphertext."""
    return 1 << math.ceil(math.log2(_CELL * noise_deviation(parties)))


def capacity(parties: int) -> int:
    """Equation (3): largest magnitude of a sum, in steps."""
    return (1 << _RANGE_BITS) // grid_step(parties)


def error_bound(parties: int, fraction_bits: int = FRACTION_BITS) -> float:
    """Equation (2): largest error of a sum."""
    return parties * 2.0 ** -(fraction_bits + 1)
