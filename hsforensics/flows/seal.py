"""Bytes under a secret: whoever lacks it learns how many there are, and nothing else.

Why a whole fingerprint is sealed, and not only its tokens and its projection keyed: projected rows stay linear in the
states, and the target's weights are public. In SmolLM2-135M, 10 known tokens in front (a chat template), whose states
anybody can compute, were enough to solve for secret signs; then the nearest row of the embedding was the right token in
every row of the other samples.

The key comes from the secret by scrypt (RFC 7914) with a random nonce. SHAKE-256 of one half of it is the key stream;
HMAC-SHA256 under the other half authenticates what was sealed, which is checked before anything is read.
"""

from __future__ import annotations

import hashlib
import hmac
import os

_NONCE, _CHECK, _TAG = 16, 16, 32
_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 1 << 14, 8, 1  # 16 MB and some 50 ms for each guess at a secret


class WrongSecretError(ValueError):
    """The bytes were sealed under another secret."""


class BrokenSealError(ValueError):
    """The secret is right, but the bytes are not those that were sealed."""


def seal(data: bytes, secret: str) -> bytes:
    """Seal bytes; the result is 64 bytes longer, and another one each time."""
    nonce = os.urandom(_NONCE)
    stream, proof = _keys(secret, nonce)
    hidden = _masked(data, stream)
    return nonce + _check(proof) + _tag(proof, nonce, hidden) + hidden


def unseal(data: bytes, secret: str) -> bytes:
    """The bytes that were sealed.

    Raises:
        WrongSecretError: They were sealed under another secret.
        BrokenSealError: They were altered or cut since.
    """
    head = _NONCE + _CHECK + _TAG
    nonce, check, tag = data[:_NONCE], data[_NONCE : _NONCE + _CHECK], data[_NONCE + _CHECK : head]
    stream, proof = _keys(secret, nonce)
    if not hmac.compare_digest(check, _check(proof)):
        raise WrongSecretError
    if not hmac.compare_digest(tag, _tag(proof, nonce, data[head:])):
        raise BrokenSealError
    return _masked(data[head:], stream)


def _keys(secret: str, nonce: bytes) -> tuple[bytes, bytes]:
    """Key of the stream, and key of the proof."""
    text = secret.encode("utf-8", "surrogateescape")
    both = hashlib.scrypt(text, salt=nonce, n=_SCRYPT_N, r=_SCRYPT_R, p=_SCRYPT_P, dklen=64)
    return both[:32], both[32:]


def _check(proof: bytes) -> bytes:
    return hmac.digest(proof, b"secret", "sha256")[:_CHECK]


def _tag(proof: bytes, nonce: bytes, hidden: bytes) -> bytes:
    return hmac.digest(proof, b"sealed" + nonce + hidden, "sha256")


def _masked(data: bytes, stream: bytes) -> bytes:
    import numpy as np

    mask = np.frombuffer(hashlib.shake_256(stream).digest(len(data)), dtype=np.uint8)
    return (np.frombuffer(data, dtype=np.uint8) ^ mask).tobytes()
