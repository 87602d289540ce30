"""Names, references, versions, the collector; what `tuskml store` prints."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tuskml.commands.cli import main
from tuskml.errors import StoreError
from tuskml.kvstore import Reference, Rules, StoreRoot, collect, files, list_stores, verify_stores
from tuskml.kvstore.access import default_root
from tuskml.partitioner import IndexMap

pytestmark = pytest.mark.fault(family="security")

INDEX = IndexMap.by_rule(4)
BAD_NAMES = [
    "", ".", "..", "../x", "a/b", "/etc", ".hidden", "-x", "a b", "a'b", 'a"b', "a;--", "a\0b",
    "ä", "x" * 64, "x" * 255, "a\n", "@1",
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_names_touch_nothing(stores: StoreRoot, name: str) -> None:
    calls = [
        lambda: stores.create(name, INDEX),
        lambda: stores.open(name),
        lambda: stores.resume(name),
        lambda: stores.publish_weights(name, np.ones(1)),
        lambda: collect(stores, name),
    ]
    for call in calls:
        with pytest.raises(StoreError, match="store"):
            call()
    assert list(stores.path.iterdir()) == []
    assert [path.name for path in stores.path.parent.iterdir()] == ["stores"]


@pytest.mark.parametrize("name", ["a", "_", "Ads-2.v1", "x" * 63, "1"])
def test_good_names(stores: StoreRoot, name: str) -> None:
    version = stores.publish_weights(name, np.ones(1))
    assert stores.open(version.reference).weights([0]) == [1]
    assert stores.names() == [name]


def test_an_unknown_name(stores: StoreRoot) -> None:
    with pytest.raises(StoreError, match="there is no store named 'ads'"):
        stores.open("ads")


def test_roots_that_are_no_directory(tmp_path: Path) -> None:
    """Nothing is made in their place, such as a folder named as far as a zero byte."""
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("gone")
    for given in ("", f"{tmp_path}/a\0b", "~no such account/a"):
        with pytest.raises(StoreError, match="stores' root"):
            StoreRoot(given)
    for name in ("file", "file/a", "file/a/b", "loop", "loop/a", "nowhere"):
        with pytest.raises(StoreError, match="is not a directory"):
            StoreRoot(tmp_path / name)
    with pytest.raises(StoreError, match="File name too long"):
        StoreRoot(tmp_path / ("a" * 300))
    assert {path.name for path in tmp_path.iterdir()} == {"file", "loop", "nowhere"}


def test_a_root_below_the_home_directory(tmp_path: Path, monkeypatch) -> None:
    """As shells and DuckDB understand it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    StoreRoot("~/a").publish_weights("m", np.ones(1))
    assert StoreRoot(tmp_path / "a").names() == ["m"]
    assert main(["store", "list", "--root", "~/a"]) in (0, None)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("part", ["", "sealed", "versions", "work"])
def test_links_are_not_followed(stores: StoreRoot, tmp_path: Path, part: str) -> None:
    stores.publish_weights("m", np.ones(1))
    place = stores.path / "m" / part if part else stores.path / "m"
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=r"link|no store named|not a directory"):
        stores.open("m")
    with pytest.raises(StoreError, match=r"link|no store named|not a directory"):
        stores.publish_weights("m", np.zeros(1))


def test_a_linked_model_file_is_not_read(stores: StoreRoot, tmp_path: Path) -> None:
    version = stores.publish_weights("m", np.ones(1))
    path = version.path(stores.path / "m")
    path.rename(tmp_path / "other")
    path.symlink_to(tmp_path / "other")
    with pytest.raises(StoreError, match="is a link"):
        stores.open("m")


def test_where_the_root_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("TUSKML_STORE_ROOT", raising=False)
    assert default_root() == tmp_path / ".local" / "share" / "tuskml" / "stores"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert StoreRoot().path == tmp_path / "data" / "tuskml" / "stores"
    monkeypatch.setenv("TUSKML_STORE_ROOT", str(tmp_path / "root"))
    assert StoreRoot().path == tmp_path / "root"
    assert StoreRoot(tmp_path / "given").path == tmp_path / "given"
    assert (tmp_path / "given").stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is not a directory"):
        StoreRoot(tmp_path / "file")


def test_references_name_one_content_for_ever(stores: StoreRoot) -> None:
    first = stores.publish_weights("m", np.ones(1))
    second = stores.publish_weights("m", np.zeros(2))
    assert (first.number, second.number) == (1, 2)
    assert stores.version("m") == second
    assert stores.version("m@1") == stores.version(first.reference) == first
    assert Reference.parse(first.reference).digest == first.digest[:16]
    with pytest.raises(StoreError, match="is another model now"):
        stores.open(f"m@2:{first.digest[:16]}")
    with pytest.raises(StoreError, match="has no version 7"):
        stores.open("m@7")
    for bad in ("m@", "m@x", "m@1:", "m@1:zz", "m@@1", "m@-1"):
        with pytest.raises(StoreError):
            stores.open(bad)
    stores.make_current("m@1")
    assert stores.version("m") == first
    assert stores.publish_weights("m", np.zeros(3)).number == 3
    with pytest.raises(StoreError, match="is the current version"):
        stores.drop("m@3")


def dead_store(stores: StoreRoot, checkpoint: bool) -> None:
    """A working store whose process was killed."""
    program = (
        "import os, sys; from tuskml.kvstore import StoreRoot\n"
        "from tuskml.partitioner import IndexMap\n"
        "store = StoreRoot(sys.argv[1]).create('m', IndexMap.by_rule(4))\n"
        f"{'store.checkpoint()' if checkpoint else ''}\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(stores.path)], check=False)
    assert done.returncode == -9


def test_the_collector(stores: StoreRoot) -> None:
    live = stores.create("m", INDEX)
    for checkpoint in (True, False):
        dead_store(stores, checkpoint)
    for value in range(5):
        stores.publish_weights("m", np.full(3, float(value)))
    folder = stores.path / "m"
    (folder / "sealed" / ".new-1").write_text("a seal that a crash ended")
    (folder / "sealed" / "orphan.tusk").write_text("published by nobody")
    reasons = sorted(each.why for each in collect(stores))
    halfway, lost = "a seal that ended halfway", "its owner is gone and it has no checkpoint"
    assert reasons == [halfway, lost]
    old = time.time() - 2 * 86_400
    for path in (folder / "sealed").iterdir():
        os.utime(path, (old, old))
    assert [each.path.name for each in collect(stores)] == ["orphan.tusk"]
    assert len(collect(stores, rules=Rules(keep=1))) == 6, "three versions, and their files"
    assert stores.versions("m") == [4, 5]
    assert [each.why for each in collect(stores, rules=Rules(older_than=-9))] == [
        "its owner is gone and it is old"
    ]
    assert stores.working("m") == [live.path]
    assert collect(stores, rules=Rules(older_than=-9)) == []
    live.close()


def test_the_collector_spares_what_is_being_sealed(stores: StoreRoot) -> None:
    def pairs():
        assert collect(stores, rules=Rules(older_than=-9)) == []
        yield np.arange(3), np.ones(3)

    stores.publish_pairs("m", pairs(), "float64")
    assert stores.open("m").nonzero == 3


def test_a_damaged_record_stops_the_collector(stores: StoreRoot) -> None:
    for value in range(3):
        stores.publish_weights("m", np.full(3, float(value)))
    (stores.path / "m" / "versions" / "2").write_bytes(b"TUSKREC\x01 and more")
    with pytest.raises(StoreError, match="damaged"):
        collect(stores, rules=Rules(older_than=-9))
    assert len(list((stores.path / "m" / "sealed").iterdir())) == 3


def test_a_lock_that_is_held_too_long(stores: StoreRoot) -> None:
    stores.publish_weights("m", np.ones(1))
    path = stores.path / "m" / "lock"
    with (
        files.Lock(path),
        pytest.raises(StoreError, match="open already"),
        files.waiting(path, patience=0.05),
    ):
        pass


def test_listing_and_verifying(stores: StoreRoot) -> None:
    stores.publish_weights("a", np.ones(5))
    stores.publish_weights("a", np.zeros(5))
    with stores.create("b", INDEX) as store:
        store.checkpoint()
        facts = list_stores(stores)
    assert [(f["name"], f.get("version"), f.get("current")) for f in facts] == [
        ("a", 1, False), ("a", 2, True), ("b", None, None),
    ]  # fmt: skip
    assert (facts[2]["owner"], facts[2]["checkpoint"]) == (os.getpid(), 1)
    assert [f["ok"] for f in verify_stores(stores)] == [True] * 4
    path = stores.version("a@1").path(stores.path / "a")
    path.write_bytes(path.read_bytes()[:-1])
    (stores.path / "a" / "versions" / "2").write_bytes(b"")
    assert [f["ok"] for f in verify_stores(stores, "a")] == [False, False, True]
    assert "error" in list_stores(stores)[1]


@pytest.mark.parametrize("suffix", ["npz", "jsonl"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_command_exports_and_imports(
    stores: StoreRoot, tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str, dtype: str
) -> None:
    weights = np.random.default_rng(0).standard_normal(9000).astype(dtype)
    weights[::3] = 0
    stores.publish_weights("m", weights, {"task": "svm"})
    file, root = tmp_path / f"m.{suffix}", ["--root", str(stores.path)]
    assert main(["store", "export", "m@1", str(file), *root]) == 0
    assert main(["store", "import", "copy", str(file), "--json", *root]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("m@1: 9,000 features, 6,000 not 0, ")
    assert json.loads(out[1])[0]["nonzero"] == 6000
    with stores.open("copy") as model:
        assert np.array_equal(model.weights(np.arange(9000)), weights)
        assert (model.metadata, model.dimension) == ({"task": "svm"}, 9000)
    if suffix == "npz":
        with np.load(file, allow_pickle=False) as arrays:
            assert np.array_equal(arrays["weights"], weights[weights != 0])
    whole = file.read_bytes()
    for n in (0, 10, len(whole) // 2, len(whole) - 5):
        file.write_bytes(whole[:n])
        assert main(["store", "import", "copy", str(file), *root]) == 1
    assert stores.versions("copy") == [1]
    capsys.readouterr()


def test_command_lists_verifies_and_collects(
    stores: StoreRoot, capsys: pytest.CaptureFixture[str]
) -> None:
    version = stores.publish_weights("m", np.ones(9000))
    stores.create("m", INDEX).close()
    root = ["--root", str(stores.path)]
    assert main(["store", "list", *root]) == 0
    assert main(["store", "verify", "m", *root]) == 0
    assert main(["store", "gc", "--older-than", "12h", "--keep", "1", "--yes", *root]) == 0
    out = capsys.readouterr().out
    for text in (
        "m@1: 9,000 features, 9,000 not 0, 72.2 KiB",
        ", current",
        "nobody's",
        "m@1: sound",
    ):
        assert text in out
    assert "its owner is gone and it has no checkpoint" in out
    path = version.path(stores.path / "m")
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["store", "verify", "--json", *root]) == 1
    captured = capsys.readouterr()
    assert [each["ok"] for each in json.loads(captured.out)] == [False, True]
    assert captured.err.startswith("tuskml: 1 of 2 are damaged, the first: ")
    assert main(["store", "gc", "--older-than", "soon", *root]) == 2
    assert main(["store", "export", "m", "weights.csv", *root]) == 1
    assert "ends with .npz or .jsonl" in capsys.readouterr().err
