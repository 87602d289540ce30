"""The archive for PGXN: what its specification of META.json asks for, and that it builds."""

import importlib.util
import json
import re
import subprocess
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tuskml.databases.extension import pgxs

SEMANTIC = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-?[A-Za-z][0-9A-Za-z-]*)?")
TERM = re.compile(r"[^\s/\\\x00-\x1f]{2,}")
LICENSES = {"apache_2_0", "bsd", "mit", "postgresql", "gpl_3"}
PHASES = {"configure", "build", "test", "runtime", "develop"}
RELATIONS = {"requires", "recommends", "suggests", "conflicts"}
KEYS = {
    "abstract", "description", "generated_by", "license", "maintainer", "meta-spec", "name",
    "no_index", "prereqs", "provides", "release_status", "resources", "tags", "version",
}  # fmt: skip


@pytest.fixture(scope="module")
def archive(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive, unpacked."""
    spec = importlib.util.spec_from_file_location("pgxn", root / "scripts" / "build" / "pgxn.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tmp_path_factory.mktemp("pgxn")
    with zipfile.ZipFile(module.write(folder)) as packed:
        packed.extractall(folder)
    (top,) = (path for path in folder.iterdir() if path.is_dir())
    return top


@pytest.fixture(scope="module")
def meta(archive: Path) -> dict[str, Any]:
    return json.loads((archive / "META.json").read_text())


def test_meta_has_what_the_specification_requires(meta: dict[str, Any], root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert set(meta) <= KEYS
    for key in ("name", "abstract", "version", "maintainer", "license", "provides", "meta-spec"):
        assert meta[key], key
    assert TERM.fullmatch(meta["name"])
    assert SEMANTIC.fullmatch(meta["version"])
    assert meta["version"] == project["version"]
    assert meta["license"] in LICENSES
    assert all(isinstance(person, str) for person in meta["maintainer"])
    assert meta["meta-spec"]["version"] == "1.0.0"
    assert meta["release_status"] in ("stable", "testing", "unstable")
    assert all(len(tag) < 256 and not set(tag) & set("/\\") for tag in meta["tags"])


def test_meta_names_files_of_the_archive(meta: dict[str, Any], archive: Path) -> None:
    assert set(meta["provides"]) == set(pgxs.EXTENSIONS)
    for provided in meta["provides"].values():
        assert {"file", "version"} <= set(provided) <= {"abstract", "docfile", "file", "version"}
        assert SEMANTIC.fullmatch(provided["version"])
        assert (archive / provided["file"]).is_file()
        assert (archive / provided["docfile"]).is_file()


def test_what_meta_needs_first(meta: dict[str, Any]) -> None:
    assert set(meta["prereqs"]) <= PHASES
    for relations in meta["prereqs"].values():
        assert set(relations) <= RELATIONS
        for versions in relations.values():
            assert all(v == 0 or SEMANTIC.fullmatch(v) for v in versions.values())


def test_the_archive_has_the_extensions_alone(archive: Path) -> None:
    names = {str(path.relative_to(archive)) for path in archive.rglob("*") if path.is_file()}
    assert {"LICENSE", "META.json", "Makefile", "udas/postgres/Makefile"} <= names
    assert not [name for name in names if name.endswith((".py", ".so", ".o", ".pyc"))]


@pytest.mark.nightly
@pytest.mark.usefixtures("cluster")
def test_the_archive_builds(archive: Path, tmp_path: Path) -> None:
    """As `pgxn install` does: make, and make install below another root."""
    server = pgxs.find()
    pgxs.check_server(server, ("tuskml",))
    command = ["make", "-C", archive, f"PG_CONFIG={server.pg_config}", f"DESTDIR={tmp_path}"]
    subprocess.run([*command, "-j2", "all"], check=True, capture_output=True)
    subprocess.run([*command, "install"], check=True, capture_output=True)
    installed = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    version = json.loads((archive / "META.json").read_text())["version"]
    scripts = {f"{name}--{version}.sql" for name in pgxs.EXTENSIONS}
    assert {"tuskml.so", "tuskml.control", "tuskml_train.control", *scripts} <= installed
