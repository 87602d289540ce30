"""Signs the DuckDB extension, so that DuckDB 2.0 trusts it once the public key is pinned.

DuckDB checks the last 256 bytes of the file: an RSA signature (PKCS #1 v1.5, SHA-256) of the
digests of each MiB before them. `TUSKML_SIGNING_KEY` names a private key of 2048 bits in PEM, as
the release has it. Without it each build makes a key, signs once, and forgets the private half:
nothing else can ever be signed by that key. The public half lies next to the extension.
"""

import base64
import hashlib
import math
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

BITS = 2048
SIGNATURE_BYTES = BITS // 8
SEGMENT_BYTES = 1 << 20
EXPONENT = 65537
ROUNDS = 40
"""Of Miller and Rabin's test: a composite number passes each with a chance below a quarter."""
SMALL_PRIMES = math.prod(n for n in range(3, 2000) if all(n % d for d in range(2, n)))
SHA256_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")
RSA_ALGORITHM = bytes.fromhex("300d06092a864886f70d0101010500")
INTEGER, BITS_TAG, SEQUENCE = 0x02, 0x03, 0x30


@dataclass(frozen=True, repr=False)
class Key:
    """An RSA key; `private` is the exponent that signs."""

    modulus: int
    exponent: int
    private: int

    def sign(self, body: bytes) -> bytes:
        """The signature of all bytes of an extension's file but the last 256."""
        digests = (
            hashlib.sha256(body[start : start + SEGMENT_BYTES]).digest()
            for start in range(0, len(body), SEGMENT_BYTES)
        )
        digest = SHA256_PREFIX + hashlib.sha256(b"".join(digests)).digest()
        padded = b"\0\1" + b"\xff" * (SIGNATURE_BYTES - len(digest) - 3) + b"\0" + digest
        signed = pow(int.from_bytes(padded), self.private, self.modulus)
        return signed.to_bytes(SIGNATURE_BYTES)

    def public_pem(self) -> str:
        """The public half as DuckDB reads it (SubjectPublicKeyInfo)."""
        numbers = field(SEQUENCE, integer(self.modulus) + integer(self.exponent))
        text = base64.encodebytes(
            field(SEQUENCE, RSA_ALGORITHM + field(BITS_TAG, b"\0" + numbers))
        )
        lines = re.findall(".{1,64}", text.decode().replace("\n", ""))
        return "\n".join(["-----BEGIN PUBLIC KEY-----", *lines, "-----END PUBLIC KEY-----", ""])


def sign_file(path: Path) -> None:
    """Writes the signature into an extension's file, and the public key next to it."""
    given = os.environ.get("TUSKML_SIGNING_KEY")
    key = read(Path(given)) if given else generate()
    body = path.read_bytes()[:-SIGNATURE_BYTES]
    path.write_bytes(body + key.sign(body))
    path.with_suffix(".pem").write_text(key.public_pem())


# --- a key for one signature ---


def generate() -> Key:
    """A new key."""
    p, q = prime(), prime()
    while p == q:
        q = prime()
    return Key(p * q, EXPONENT, pow(EXPONENT, -1, math.lcm(p - 1, q - 1)))


def prime() -> int:
    """A random prime of half the key's bits; the product of two of them has all its bits."""
    bits = BITS // 2
    while True:
        n = secrets.randbits(bits) | 3 << bits - 2 | 1
        if math.gcd(n, SMALL_PRIMES) == 1 and n % EXPONENT != 1 and is_prime(n):
            return n


def is_prime(n: int) -> bool:
    """Miller and Rabin's test of an odd number."""
    odd = n - 1
    twos = (odd & -odd).bit_length() - 1
    odd >>= twos
    for _ in range(ROUNDS):
        x = pow(2 + secrets.randbelow(n - 3), odd, n)
        powers = [x] + [x := x * x % n for _ in range(twos - 1)]
        if powers[0] != 1 and n - 1 not in powers:
            return False
    return True


# --- the files of keys ---


def read(path: Path) -> Key:
    """A private key, as `openssl genpkey` (PKCS #8) and `openssl genrsa` (PKCS #1) write it."""
    block = re.search(
        r"-----BEGIN (RSA )?PRIVATE KEY-----\s([\w+/=\s]+)-----END", path.read_text()
    )
    if block is None:
        raise ValueError(
            f"TUSKML_SIGNING_KEY names {path}, "
            "expected an RSA private key in PEM, without a password"
        )
    outer = fields(fields(base64.b64decode(block[2]))[0])
    numbers = outer if block[1] else fields(fields(outer[2])[0])
    modulus, exponent, private = (int.from_bytes(part) for part in numbers[1:4])
    if modulus.bit_length() != BITS:
        raise ValueError(
            f"TUSKML_SIGNING_KEY names {path}, a key of {modulus.bit_length()} bits, "
            f"expected {BITS}"
        )
    return Key(modulus, exponent, private)


def fields(data: bytes) -> list[bytes]:
    """The contents of the fields that follow each other in DER."""
    found = []
    while data:
        size, start = data[1], 2
        if size & 0x80:
            start += size & 0x7F
            size = int.from_bytes(data[2:start])
        found.append(data[start : start + size])
        data = data[start + size :]
    return found


def field(tag: int, content: bytes) -> bytes:
    """One field in DER."""
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(length)]) + length + content


def integer(n: int) -> bytes:
    """A number that is not negative in DER."""
    return field(INTEGER, n.to_bytes(n.bit_length() // 8 + 1))
