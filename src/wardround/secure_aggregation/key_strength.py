"""Which certificates and requests are strong enough: RSA keys of sufficient size, signed with SHA-2.

FLARE makes keys of 2048 bits and signs with SHA-256; but another party chooses what is in a request or a certificate.
"""

from __future__ import annotations

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa

__all__ = ["weakness", "weakness_of_certificate", "weakness_of_request"]

_FEWEST_BITS, _MOST_BITS = 2048, 8192  # a signature of a longer key takes long to verify
_SMALLEST_EXPONENT = 65537
_HASHES = (hashes.SHA256, hashes.SHA384, hashes.SHA512)


def weakness(signed: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """Return why a certificate or request must not be trusted, as the rest of a sentence; empty if it may be."""
    try:
        key = signed.public_key()
        digest = signed.signature_hash_algorithm
    except (ValueError, UnsupportedAlgorithm):
        return "has a key or a signature of an unknown kind; the study's are RSA with SHA-256"
    if not isinstance(key, rsa.RSAPublicKey):
        return "has no RSA key; keys of a study are RSA"
    if not _FEWEST_BITS <= key.key_size <= _MOST_BITS:
        return f"has an RSA key of {key.key_size} bits; keys have {_FEWEST_BITS} to {_MOST_BITS}"
    exponent = key.public_numbers().e
    if exponent < _SMALLEST_EXPONENT:
        return f"has an RSA key with the exponent {exponent}; keys have {_SMALLEST_EXPONENT}"
    if not isinstance(digest, _HASHES):
        return "is signed with another hash than SHA-256, SHA-384 or SHA-512"
    return ""


def weakness_of_certificate(pem: bytes) -> str:
    """Return the weakness of a certificate in PEM; raise a `ValueError` if it is none."""
    return weakness(x509.load_pem_x509_certificate(pem))


def weakness_of_request(pem: bytes) -> str:
    """Return the weakness of a request in PEM; raise a `ValueError` if it is none."""
    return weakness(x509.load_pem_x509_csr(pem))
