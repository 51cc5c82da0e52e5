"""How CKKS is set up so that it gives exact sums of fixed-point values, and why that is safe.

``cipher`` encrypts, adds and decrypts through SEAL, ``parallel`` does so on all cores,
and ``sums`` has the two sides of a secure sum and the masks of what is encrypted.

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

Binding. All parties have one CKKS key, so a party could be made to decrypt anything for the server:
one party's ciphertext, or one of another sum. Therefore party u encrypts not x_u but::

    r_u = (x_u + m_u) mod M,  -M/2 <= r_u < M/2                                                 (2)

with a mask m_u, uniform modulo M = 2**b, from the group key, which the server does not have. Masks
differ for every session, name of a sum, reader, layout and party. Whoever decrypts a sum takes off
the masks of those contributors that it was told, and of that name, reader and layout; what remains
of anything else is uniform. So that this is an error and not a wrong sum, one value more is
encrypted: the product of x_u with a vector that follows from the group key. It adds up as x_u does,
and in something else it is right with probability 1/M.

Exactness. The grid D is the smallest power of two that is at least 28 sigma(n). So the noise stays
within 12 sigma of a grid point, while grid points lie 28 sigma apart: rounding to the nearest one
removes all of it. float64 arithmetic adds an error of a measured deviation below 0.4 sigma, which
raises the deviation of both together by less than a tenth. What remains is that every party rounds
its value to a step, by at most half of one::

    error <= n * 2**-(f + 1)                                                                    (3)

Range. Sums must lie within half of M to be told from others modulo M. The larger M, the larger the
coefficients; they must stay below q/2 > 2**57 - 2**50. Masked values are uniform, whatever was
masked, with deviation M / sqrt(12). So a coefficient of the sum of n encoded vectors, which is 2D/N
times a sum of N/2 real and N/2 imaginary parts, each times a cosine or a sine, is sub-Gaussian with
deviation D * M * sqrt(n/12) * sqrt(2/N). We take the largest power of two with::

    D * M * sqrt(n) <= 2**60,  sum|k| < M/2                                                     (4)

Then the deviation is at most 2**52.8, and q/2 is more than 18 times that. (A larger M would be held
back by float64: it has 53 bits for the values in the slots, whose deviation is up to 2**58.3.)

Why not CKKS as it comes? Its decrypted values carry the noise, and whoever has a ciphertext and
its noisy decryption can solve for the secret key (Li and Micciancio, "On the security of
homomorphic encryption on approximate numbers", Eurocrypt 2021). When the server is to read the sum
it has both. Rounded to the grid, a decryption says the sum and nothing about the noise.

Damage. A ciphertext of another key, or a damaged one, decrypts to uniform noise: each of its N
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
_RANGE_BITS = 60


def noise_deviation(parties: int) -> float:
    """Equation (1): deviation of a value's noise, in units of the ciphertext."""
    return math.sqrt(parties * DEGREE / 2 * (_NOISE**2 + 1 / 12))


def noise_bound(parties: int) -> float:
    """Largest noise that is taken for noise; more means a damaged ciphertext or another key."""
    return _TAIL * noise_deviation(parties)


def grid_step(parties: int) -> int:
    """The scale D: distance of neighboring values, in units of the ciphertext."""
    return 1 << math.ceil(math.log2(_CELL * noise_deviation(parties)))


def mask_bits(parties: int) -> int:
    """Equation (4): values are masked modulo two to so many bits."""
    return math.floor(_RANGE_BITS - math.log2(grid_step(parties) * math.sqrt(parties)))


def capacity(parties: int) -> int:
    """Equation (4): largest magnitude of a sum, in steps."""
    return (1 << (mask_bits(parties) - 1)) - 1


def error_bound(parties: int, fraction_bits: int = FRACTION_BITS) -> float:
    """Equation (3): largest error of a sum."""
    return parties * 2.0 ** -(fraction_bits + 1)
