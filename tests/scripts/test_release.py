"""A release's SBOM, checksums and signature, on small archives, checked by other programs."""

import json
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cyclonedx_py")


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    allowed = f"releases@example.org {path.with_suffix('.pub').read_text()}"
    path.with_name("allowed_signers").write_text(allowed)
    return path


@pytest.fixture
def dist(root: Path, tmp_path: Path) -> Path:
    """A folder with an sdist and a wheel, whose library says that GCC 12.2.0 made it."""
    number = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    readme = tmp_path / "README.md"
    readme.write_text("tuskml\n")
    folder = tmp_path / "dist"
    folder.mkdir()
    with tarfile.open(folder / f"tuskml-{number}.tar.gz", "w:gz") as archive:
        archive.add(readme, "README.md")
    with zipfile.ZipFile(folder / f"tuskml-{number}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tuskml/kernels/_native.so", b"\0GCC: (Debian 12.2.0-14) 12.2.0\0")
    return folder


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a small environment, in which two packages seem to be installed."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name, number in (("numpy", "1.26.4"), ("duckdb", "2.0.0")):
        facts = site / f"{name}-{number}.dist-info"
        facts.mkdir()
        said = f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n"
        (facts / "METADATA").write_text(said)
    return folder / "bin" / "python"


@pytest.fixture
def release(root: Path, dist: Path, python: Path) -> Callable[..., Any]:
    """Runs the script on the folder."""
    command = [sys.executable, root / "scripts/build/release.py", dist, "--python", python]

    def run(*more: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *more], capture_output=True, text=True, check=False)

    return run


def verified(dist: Path, key: Path) -> bool:
    """Whether the two commands of docs/operations.md accept the folder."""
    signed = ["-s", "SHA256SUMS.sig", "-I", "releases@example.org", "-n", "tuskml-release"]
    allowed = key.with_name("allowed_signers")
    signature = subprocess.run(
        ["ssh-keygen", "-Y", "verify", "-f", allowed, *signed],
        cwd=dist,
        input=(dist / "SHA256SUMS").read_bytes(),
        capture_output=True,
        check=False,
    )
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    sums = subprocess.run(check, cwd=dist, capture_output=True, check=False)
    return signature.returncode == 0 and sums.returncode == 0


def test_a_release_is_verified_and_a_changed_one_is_not(
    release, dist, key, tmp_path_factory, monkeypatch
):
    # The SBOM's IRIs are checked at night: their grammar takes seconds to compile.
    lacking = tmp_path_factory.mktemp("lacking")
    (lacking / "rfc3987_syntax.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(lacking))
    done = release("--key", key)
    assert done.returncode == 0, done.stderr
    assert verified(dist, key)
    names = {line.split()[1] for line in (dist / "SHA256SUMS").read_text().splitlines()}
    assert names == {path.name for path in dist.iterdir()} - {"SHA256SUMS", "SHA256SUMS.sig"}
    wheel = next(dist.glob("*.whl"))
    kept = wheel.read_bytes()
    wheel.write_bytes(kept + b"x")
    assert not verified(dist, key)
    sums = (dist / "SHA256SUMS").read_text()
    subprocess.run(
        f"sha256sum {wheel.name} > new; grep -v {wheel.name} SHA256SUMS >> new; mv new SHA256SUMS",
        shell=True,
        cwd=dist,
        check=True,
    )
    assert not verified(dist, key), "the sums fit the changed wheel, and the signature does not"
    wheel.write_bytes(kept)
    (dist / "SHA256SUMS").write_text(sums)
    assert verified(dist, key)


@pytest.mark.nightly
def test_the_sbom_names_what_is_installed_and_linked_in(release, dist):
    done = release()
    assert done.returncode == 0, done.stderr
    (path,) = dist.glob("*.cdx.json")
    bill = json.loads(path.read_text())
    assert bill["bomFormat"] == "CycloneDX"
    main = bill["metadata"]["component"]
    assert [main["name"], main["version"]] == [
        "tuskml",
        path.name.split("-")[1][: -len(".cdx.json")],
    ]
    found = {one["name"].lower(): one.get("version") for one in bill["components"]}
    assert found == {"numpy": "1.26.4", "duckdb": "2.0.0", "libstdc++": "12.2.0"}


@pytest.mark.nightly
def test_without_a_key_it_is_not_signed_and_says_so(release, dist, key):
    assert release("--key", key).returncode == 0
    done = release()
    assert "not signed: give a key" in done.stdout
    assert not (dist / "SHA256SUMS.sig").exists(), "a signature of earlier sums stays behind"


def test_strange_or_missing_archives_are_refused(release, dist):
    (dist / "tuskml-0.0.9.tar.gz").write_bytes(b"")
    done = release()
    assert done.returncode != 0
    assert "archives of other versions, expected none: tuskml-0.0.9.tar.gz" in done.stderr
    (dist / "tuskml-0.0.9.tar.gz").unlink()
    next(dist.glob("*.whl")).unlink()
    assert "has no sdist and wheel" in release().stderr


def test_of_several_wheels_this_machines_is_installed(root: Path) -> None:
    sys.path.insert(0, str(root / "scripts" / "build"))
    try:
        import release
    finally:
        sys.path.pop(0)
    here = Path(f"tuskml-1-py3-none-manylinux_2_31_{release.platform.machine()}.whl")
    other = Path("tuskml-1-py3-none-manylinux_2_31_aaa64.whl")
    assert release.own([Path("tuskml-1.tar.gz"), other, here]) == here
    assert release.own([Path("tuskml-1.tar.gz"), other]) == other


def test_a_tag_needs_the_version_and_the_owner(release: Any, root: Path) -> None:
    """No package is published whose links go to an account that nobody has decided on."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert "the tag is v0, expected v" in release("--tag", "v0").stderr
    done = release("--tag", f"v{project['version']}")
    owned = not any("/OWNER/" in url for url in project["urls"].values())
    assert ("pyproject.toml has OWNER in the URLs Homepage, " in done.stderr) != owned
