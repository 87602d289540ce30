"""Signatures of the extension: DuckDB's own check, and OpenSSL's."""

import importlib.util
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import pytest

MODULE = Path(__file__).parents[2] / "scripts" / "build" / "signing.py"


@pytest.fixture(scope="module")
def signing() -> ModuleType:
    import sys

    spec = importlib.util.spec_from_file_location("signing", MODULE)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules["signing"] = found  # dataclasses look themselves up there
    spec.loader.exec_module(found)
    return found


def test_primes(signing: ModuleType) -> None:
    below = [n for n in range(5, 2000, 2) if signing.is_prime(n)]
    assert below == [n for n in range(5, 2000, 2) if all(n % d for d in range(3, n, 2))]
    assert not signing.is_prime(3215031751)  # which the bases 2, 3, 5 and 7 take for one
    assert signing.is_prime(2**521 - 1)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
@pytest.mark.parametrize("form", ["pkcs8", "pkcs1", "own"])
def test_openssl_agrees(signing: ModuleType, form: str, tmp_path: Path) -> None:
    """Keys of both forms are read, and a signature is what OpenSSL expects."""
    if form == "own":
        key = signing.generate()
    else:
        file = tmp_path / "key.pem"
        old = ["-traditional"] if form == "pkcs1" else []
        openssl("genrsa", *old, "-out", str(file), "2048")
        assert form != "pkcs1" or "RSA PRIVATE" in file.read_text()
        key = signing.read(file)
    public, body = tmp_path / "public.pem", bytes(range(256)) * 9000
    public.write_text(key.public_pem())
    pieces = [sha256(body[at : at + 2**20]).digest() for at in range(0, len(body), 2**20)]
    (tmp_path / "digest").write_bytes(sha256(b"".join(pieces)).digest())
    (tmp_path / "signature").write_bytes(key.sign(body))
    check = ["pkeyutl", "-verify", "-pubin", "-inkey", str(public), "-pkeyopt", "digest:sha256"]
    files = ["-in", str(tmp_path / "digest"), "-sigfile", str(tmp_path / "signature")]
    assert "Verified Successfully" in openssl(*check, *files)


def test_keys_that_do_not_fit(signing: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_text("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
    with pytest.raises(ValueError, match="expected an RSA private key in PEM, without a password"):
        signing.read(file)
    if shutil.which("openssl"):
        openssl("genrsa", "-out", str(file), "3072")
        with pytest.raises(ValueError, match="a key of 3072 bits, expected 2048"):
            signing.read(file)


def test_a_file_is_signed_by_the_key_that_is_named(
    signing: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a name by a new key each time; a private key is written nowhere."""
    file = tmp_path / "x.duckdb_extension"
    signed = []
    monkeypatch.delenv("TUSKML_SIGNING_KEY", raising=False)
    for _ in range(2):
        file.write_bytes(b"abc" + bytes(256))
        signing.sign_file(file)
        signed.append((file.read_bytes(), file.with_suffix(".pem").read_text()))
    assert signed[0][0][:3] == b"abc"
    assert len(signed[0][0]) == 259
    assert signed[0] != signed[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.duckdb_extension", "x.pem"]
    assert "PRIVATE" not in signed[0][1]


def openssl(*arguments: str) -> str:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
