"""Signs the DuckDB extension, so that DuckDB 2.0 trusts it once the public key is pinned.

DuckDB checks the last 256 bytes of the file: an RSA signature (PKCS #1 v1.5, SHA-256) of the
digests of each MiB before them. `TUSKML_SIGNING_KEY` names a private key of 2048 bits in PEM, as
the release has it. Without it each build makes a key, signs once, and forgets the private half:
nothing else can ever be signed by that key. The public half lies next to the extension.
"""

import hashlib
import os
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa, utils

BITS = 2048
SIGNATURE_BYTES = BITS // 8
SEGMENT_BYTES = 1 << 20


def sign_file(path: Path) -> None:
    """Writes the signature into an extension's file, and the public key next to it."""
    name = os.environ.get("TUSKML_SIGNING_KEY")
    key = read(Path(name)) if name else rsa.generate_private_key(65537, BITS)
    body = path.read_bytes()[:-SIGNATURE_BYTES]
    path.write_bytes(body + signature(key, body))
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    path.with_suffix(".pem").write_bytes(public)


def signature(key: rsa.RSAPrivateKey, body: bytes) -> bytes:
    """The signature of all bytes of an extension's file but the last 256."""
    digests = (
        hashlib.sha256(body[start : start + SEGMENT_BYTES]).digest()
        for start in range(0, len(body), SEGMENT_BYTES)
    )
    digest = hashlib.sha256(b"".join(digests)).digest()
    return key.sign(digest, padding.PKCS1v15(), utils.Prehashed(hashes.SHA256()))


def read(path: Path) -> rsa.RSAPrivateKey:
    """The private key in a file, which must be RSA of 2048 bits without a password."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise ValueError(refusal(path)) from error
    if not isinstance(key, rsa.RSAPrivateKey):
        raise ValueError(refusal(path))
    if key.key_size != BITS:
        raise ValueError(
            f"TUSKML_SIGNING_KEY names {path}, a key of {key.key_size} bits, expected {BITS}"
        )
    return key


def refusal(path: Path) -> str:
    """The error that describes the expected file."""
    return (
        f"TUSKML_SIGNING_KEY names {path}, expected an RSA private key in PEM, without a password"
    )
