"""A reaction attack on a sealing key: a sum is changed slightly, and the site's answer reveals a coefficient.

Adding M to the constant coefficient of c1 adds M times the secret s, whose coefficients are −1, 0 or 1, to the noise of
a ciphertext. M lies just below the largest noise that a site accepts; a further M at one coefficient of c0 lifts that
coefficient over it where s has a 1 there, and −M where it has a −1. Two questions tell one coefficient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from wardround.federation.message import Message
from wardround.secure_aggregation import bfv
from wardround.secure_aggregation.bfv import BfvParameters

PARAMETERS = BfvParameters("standard")
DEGREE = 4096
JUST_BELOW = 2200  # two of them are over the limit of 2^12, one is not


def tampered(taken: Message, coefficient: int, sign: int) -> Message:
    """Return the sum of a question, changed so that the answer depends on one coefficient of the secret."""
    form = PARAMETERS.summed
    data = np.array(taken.arrays["sealed"])
    numbers = data[len(form.head) : form.length].view("<u8")  # of block 0: c0, then c1
    _add(numbers, DEGREE, JUST_BELOW, form.modulus)
    _add(numbers, coefficient, sign * JUST_BELOW, form.modulus)
    # Change the plaintext, so that a sum with little noise is refused too and the site's state does not change.
    _add(numbers, (coefficient + 1) % DEGREE, form.modulus // PARAMETERS.packing.modulus, form.modulus)
    return Message(taken.values, {**taken.arrays, "sealed": data}, taken.blobs)


def recovered(
    ask: Callable[[Message], str], taken: Message, coefficients: Sequence[int]
) -> tuple[list[int], list[str]]:
    """Return the coordinator's guesses of the coefficients, and every code that the sites answered with."""
    answers = {(place, sign): ask(tampered(taken, place, sign)) for place in coefficients for sign in (1, -1)}
    usual = max(set(answers.values()), key=list(answers.values()).count)
    found = [1 if answers[place, 1] != usual else -1 if answers[place, -1] != usual else 0 for place in coefficients]
    return found, list(answers.values())


def secret_coefficients(secret: bytes, count: int) -> list[int]:
    """Return the first coefficients of a secret key: half of the decryption of (0, 2Δ)."""
    seal = bfv._seal()
    form, ring = PARAMETERS.summed, PARAMETERS.packing.modulus
    numbers = np.zeros(form.numbers, "<u8")
    numbers[DEGREE] = 2 * (form.modulus // ring)
    row = np.frombuffer(form.head + numbers.tobytes(), np.uint8)
    cipher, plain = seal.Ciphertext(), seal.Plaintext()
    with bfv._loading(PARAMETERS, form) as load:
        load(row.data, cipher)
    seal.Decryptor(PARAMETERS.context, bfv._secret_key(PARAMETERS, secret)).decrypt(cipher, plain)
    found = [plain[place] if place < plain.coeff_count() else 0 for place in range(count)]
    return [1 if number == 2 else -1 if number == ring - 2 else 0 for number in found]


def _add(numbers: np.ndarray, place: int, value: int, modulus: int) -> None:
    numbers[place] = (int(numbers[place]) + value) % modulus
