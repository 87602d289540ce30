"""Signatures of the extension as OpenSSL checks them; DuckDB's own check is in `test_trust.py`."""

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
    spec = importlib.util.spec_from_file_location("signing", MODULE)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    """A file with room for a signature."""
    file = tmp_path / "x.duckdb_extension"
    file.write_bytes(bytes(range(256)) * 9000 + bytes(256))
    return file


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
@pytest.mark.parametrize("form", ["pkcs8", "pkcs1", "own"])
def test_openssl_agrees(
    signing: ModuleType, form: str, extension: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys of both forms are read, and a signature is what OpenSSL expects."""
    monkeypatch.delenv("TUSKML_SIGNING_KEY", raising=False)
    folder = extension.parent
    if form != "own":
        key = folder / "key.pem"
        old = ["-traditional"] if form == "pkcs1" else []
        openssl("genrsa", *old, "-out", str(key), "2048")
        assert ("RSA PRIVATE" in key.read_text()) == (form == "pkcs1")
        monkeypatch.setenv("TUSKML_SIGNING_KEY", str(key))
    signing.sign_file(extension)
    body, signature = extension.read_bytes()[:-256], extension.read_bytes()[-256:]
    pieces = [sha256(body[at : at + 2**20]).digest() for at in range(0, len(body), 2**20)]
    (folder / "digest").write_bytes(sha256(b"".join(pieces)).digest())
    (folder / "signature").write_bytes(signature)
    public = str(extension.with_suffix(".pem"))
    check = ["pkeyutl", "-verify", "-pubin", "-inkey", public, "-pkeyopt", "digest:sha256"]
    files = ["-in", str(folder / "digest"), "-sigfile", str(folder / "signature")]
    assert "Verified Successfully" in openssl(*check, *files)


def test_keys_that_do_not_fit(signing: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_text("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
    refused = "expected an RSA private key in PEM, without a password"
    with pytest.raises(ValueError, match=refused):
        signing.read(file)
    if shutil.which("openssl"):
        openssl("genrsa", "-aes128", "-passout", "pass:secret", "-out", str(file), "2048")
        with pytest.raises(ValueError, match=refused):
            signing.read(file)
        openssl("genpkey", "-algorithm", "ed25519", "-out", str(file))
        with pytest.raises(ValueError, match=refused):
            signing.read(file)
        openssl("genrsa", "-out", str(file), "3072")
        with pytest.raises(ValueError, match="a key of 3072 bits, expected 2048"):
            signing.read(file)


def test_a_key_of_its_own_for_each_file(
    signing: ModuleType, extension: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a name each build signs with a new key, and writes no private key."""
    signed = []
    monkeypatch.delenv("TUSKML_SIGNING_KEY", raising=False)
    for _ in range(2):
        size = extension.stat().st_size
        signing.sign_file(extension)
        assert extension.stat().st_size == size
        signed.append((extension.read_bytes()[-256:], extension.with_suffix(".pem").read_text()))
    assert signed[0][0] != signed[1][0]
    assert signed[0][1] != signed[1][1]
    assert {path.name for path in extension.parent.iterdir()} == {"x.duckdb_extension", "x.pem"}
    assert "PRIVATE" not in signed[0][1]


def openssl(*arguments: str) -> str:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
