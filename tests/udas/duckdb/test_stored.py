"""Predictions of models whose weights lie in a store: NumPy's numbers, or an error."""

import shutil
import struct
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tuskml
from tuskml.errors import DataError
from tuskml.kvstore import StoreRoot
from tuskml.kvstore.native import crc32c

sys.path.append(str(Path(__file__).parent))

from stored_models import ask, con, literal, root

__all__ = ["con", "root"]

pytestmark = pytest.mark.native

N = 20_000
SCORES = "SELECT predict({}, sparse(?::INTEGER[], ?::DOUBLE[]))"


def weights_of(density: float, dtype: str = "float32", n: int = N) -> np.ndarray:
    random = np.random.default_rng(7)
    return (random.standard_normal(n) * (random.random(n) < density)).astype(dtype)


def refusal(con: duckdb.DuckDBPyConnection, model: str) -> str:
    with pytest.raises(duckdb.Error) as raised:
        ask(con, f"predict({model}, sparse([1, 9999], [1.0, 1.0]))")
    assert ask(con, "1") == 1, "the connection is usable"
    return str(raised.value)


# --- answers ---


@given(
    rows=st.lists(
        st.lists(
            st.tuples(st.integers(0, 2 * N) | st.just(2**31 - 2), st.floats(-9, 9)), max_size=300
        ),
        max_size=5,
    ),
    density=st.sampled_from([1.0, 0.6, 0.2, 0.01, 0.0]),
    dtype=st.sampled_from(["float32", "float64"]),
)
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_sparse_rows_as_in_numpy(root, con, rows, density: float, dtype: str) -> None:
    weights = weights_of(density, dtype)
    model = literal(root.publish_weights("m", weights).reference)
    known = np.zeros(2 * N + 1)
    known[:N] = weights
    for row in rows:
        ids = np.array([i for i, _ in row], np.int64)
        x = np.array([v for _, v in row])
        seen = np.where(ids < len(known), known[np.minimum(ids, 2 * N)], 0.0)
        found = con.execute(SCORES.format(model), [ids.tolist(), x.tolist()]).fetchall()[0][0]
        assert found == pytest.approx(0.5 + x @ seen, rel=1e-12, abs=1e-9)


@pytest.mark.sample(4)
@pytest.mark.parametrize("width", [0, 1, 255, 256, 257, 4096, 9000, N + 10])
@pytest.mark.parametrize("density", [1.0, 0.05])
def test_dense_rows_as_in_numpy(root, con, width: int, density: float) -> None:
    weights = weights_of(density)
    model = literal(root.publish_weights("m", weights).reference)
    x = np.random.default_rng(0).standard_normal((3, width))
    known = np.pad(weights.astype(float), (0, 10))[:width]
    rows = ", ".join("(?)" for _ in x)
    found = con.execute(
        f"SELECT predict(m, v::DOUBLE[]) FROM (SELECT {model} AS m), (VALUES {rows}) t(v)",
        x.tolist(),
    ).fetchall()
    assert np.ravel(found) == pytest.approx(0.5 + x @ known, rel=1e-10, abs=1e-9)


def test_clustered_slots_are_found(root, con) -> None:
    """Slots that do not lie evenly in their block, where looking around a guess does not help."""
    ids = np.concatenate([np.arange(200), np.arange(3900, 4096), 4096 + np.arange(63), [N - 1]])
    weights = np.zeros(N)
    weights[ids] = np.random.default_rng(1).standard_normal(len(ids))
    model = literal(root.publish_weights("m", weights).reference)
    found = con.execute(
        f"SELECT decision(m, sparse([i], [1.0])) FROM (SELECT {model} AS m), range({N}) t(i)"
    ).fetchall()
    assert np.ravel(found).tolist() == (weights + 0.5).tolist()


def test_ids_far_apart_are_searched(root, con) -> None:
    ids = np.unique(np.random.default_rng(0).integers(0, 2**31 - 1, 3000))
    pairs = [(ids, np.arange(1.0, len(ids) + 1))]
    model = literal(root.publish_pairs("m", pairs, "float64").reference, intercept="0")
    found = con.execute(
        f"SELECT predict(m, sparse([i, i + 1], [1.0, 0])) "
        f"FROM (SELECT {model} AS m), (SELECT unnest(?) AS i)",
        [ids[:-1].tolist()],
    ).fetchall()
    assert np.ravel(found).tolist() == list(range(1, len(ids)))


def test_classes_probabilities_and_null(root, con) -> None:
    reference = root.publish_weights("m", np.array([2.0, -3.0])).reference
    row = "sparse([0, 1], [1.0, 2.0])"  # the margin is -3.5
    assert ask(con, f"predict({literal(reference, 'svm')}, {row})") == 3
    assert ask(con, f"decision({literal(reference, 'svm')}, {row})") == -3.5
    p = ask(con, f"predict_proba({literal(reference, 'logistic')}, {row})")
    assert p == pytest.approx(1 / (1 + np.exp(3.5)))
    assert ask(con, f"predict({literal(reference, intercept='NULL::DOUBLE')}, {row})") == -4
    assert ask(con, f"predict({literal(reference)}, NULL::DOUBLE[])") is None
    with pytest.raises(duckdb.Error, match="feature id -1 is negative"):
        ask(con, f"predict({literal(reference)}, sparse([-1], [1.0]))")


@pytest.mark.nightly
def test_models_of_more_files_than_are_kept_open(root, con) -> None:
    n = 40
    references = [root.publish_weights(f"m{i}", np.array([float(i)])).reference for i in range(n)]
    models = ", ".join(f"({literal(r, intercept='0')})" for r in references)
    query = f"SELECT predict(m, [1.0]) FROM (VALUES {models}) t(m), range(20) ORDER BY random()"
    found = np.ravel(con.execute(query).fetchall())
    assert np.array_equal(np.sort(found), np.repeat(np.arange(n), 20))
    with open("/proc/self/maps") as maps:
        assert sum(str(root.path) in line for line in maps) <= 16


@pytest.mark.nightly
def test_threads_predict_together(root, con) -> None:
    references = [
        root.publish_weights(f"m{i}", np.full(50_000, float(i))).reference for i in range(20)
    ]
    con.execute("SELECT tuskml_set_memory(1000000, '')")  # every other block is let go
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            cursor = con.cursor()
            for i in range(number, number + 10):
                model = literal(references[i % 20], intercept="0")
                rows = f"SELECT {model} AS m, j FROM range(3000) t(j)"
                query = f"SELECT predict(m, sparse([(j * 7919) % 50000], [1.0])) FROM ({rows})"
                found = set(np.ravel(cursor.execute(query).fetchall()))
                if found != {float(i % 20)}:
                    wrong.append((i, found))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert wrong == []


BOUNDED = """
import sys, tuskml
status = lambda name: next(
    int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
con = tuskml.connect(store_root=sys.argv[1], threads=1)
con.execute("SELECT tuskml_set_memory(64000000, '')").fetchall()
one = "predict(m, sparse([i * 4096 + i % 4096], [1.0]))"
query = f"SELECT sum({one}) FROM (SELECT {sys.argv[2]} AS m), range({sys.argv[3]}) t(i)"
con.execute(query.replace(f"range({sys.argv[3]})", "range(1)")).fetchall()
before = status("VmRSS")
print(con.execute(query).fetchall()[0][0], status("VmHWM") - before)
"""


@pytest.mark.nightly
def test_memory_is_bounded_whatever_the_models_size(root: StoreRoot) -> None:
    n_blocks = 6200  # of 32 KiB: 203 MB
    weights = np.arange(n_blocks * 4096, dtype=np.float64)
    version = root.publish_weights("big", weights)
    assert version.size > 200e6
    model = literal(version.reference, intercept="0")
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED, str(root.path), model, str(n_blocks)],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    found, kilobytes = done.stdout.split()
    ids = np.arange(n_blocks) * 4097 - np.arange(n_blocks) // 4096 * 4096
    assert float(found) == weights[ids].sum()
    assert int(kilobytes) < 50_000, "of 203,000 that were read"


# --- what is refused ---


@pytest.mark.sample(5)
@pytest.mark.parametrize(("reference", "told"), [
    ("ads@1:" + "0" * 16, "the stored model ads@1:0000000000000000 is gone"),
    ("nix@1:" + "0" * 16, "there is no store named 'nix'"),
    ("../ads@1:" + "0" * 16, "the model lies in the store '../ads@1:"),
    (".@1:" + "0" * 16, "expected a reference such as"),
    ("a/b@1:" + "0" * 16, "expected a reference such as"),
    ("it's@1:" + "0" * 16, "expected a reference such as"),
    ("a" * 64 + "@1:" + "0" * 16, "expected a reference such as"),
    ("a" * 255 + "@1:" + "0" * 16, "expected a reference such as"),
    ("ä" * 63 + "@1:" + "0" * 16, "expected a reference such as"),
    ("ads@1:" + "A" * 16, "expected a reference such as"),
    ("ads@1234567890:" + "0" * 16, "expected a reference such as"),
    ("ads@1:" + "0" * 17, "expected a reference such as"),
    ("ads@1", "the model lies in the store 'ads@1', expected a reference"),
    ("ads", "the model lies in the store 'ads', expected a reference"),
    ("", "the model lies in the store '', expected a reference"),
])  # fmt: skip
def test_references_that_lead_nowhere(root, con, reference: str, told: str) -> None:
    root.publish_weights("ads", np.ones(3))
    assert told in refusal(con, literal(reference))


def test_a_model_without_a_store_and_without_a_root(root, con) -> None:
    model = literal(root.publish_weights("m", np.ones(3)).reference)
    nowhere = model.replace('"store"', '"stor"')
    assert "no coefficients, and its options name no store" in refusal(con, nowhere)
    shutil.rmtree(root.path)
    assert "there is no store named 'm'" in refusal(con, model)


def test_links_are_not_followed(root, con, tmp_path: Path) -> None:
    version = root.publish_weights("m", np.ones(3))
    path = version.path(root.path / "m")
    path.rename(tmp_path / "file")
    path.symlink_to(tmp_path / "file")
    assert "is a link, which a store does not follow" in refusal(con, literal(version.reference))
    (root.path / "m").rename(tmp_path / "m")
    (root.path / "m").symlink_to(tmp_path / "m")
    assert "links are not followed" in refusal(con, literal(version.reference))


def test_what_changes_while_it_is_open_is_noticed(root, con) -> None:
    version = root.publish_weights("m", np.ones(9000))
    path, model = version.path(root.path / "m"), literal(version.reference)
    assert ask(con, f"predict({model}, [1.0])") == 1.5
    whole = path.read_bytes()
    with path.open("r+b") as file:
        file.truncate(5000)
    assert "is damaged" in refusal(con, model)
    path.write_bytes(whole)
    assert ask(con, f"predict({model}, [1.0])") == 1.5
    path.unlink()
    assert "is gone" in refusal(con, model)
    root.publish_weights("m", np.zeros(9000))
    assert "is gone" in refusal(con, model), "another version is another model"


def test_flipped_and_cut_files_never_answer_otherwise(root, con) -> None:
    """Wherever a bit is flipped: the same answer, or an error. Also of the next query."""
    weights = weights_of(0.3, n=9000)
    version = root.publish_weights("m", weights)
    path, model = version.path(root.path / "m"), literal(version.reference)
    query = f"SELECT sum(predict(m, sparse([i], [1.0]))) FROM (SELECT {model} m), range(9000) t(i)"
    (right,) = con.execute(query).fetchall()
    whole = path.read_bytes()
    answered = 0
    places = {*range(0, len(whole), 422), *range(40), *range(len(whole) - 400, len(whole), 6)}
    for number, place in enumerate(sorted(places)):
        spoiled = bytearray(whole)
        spoiled[place] ^= 1 << number % 8
        path.write_bytes(spoiled)
        answered += answers(con, query, right)
    assert answered < len(places) / 20, "the index map's bytes are not read, nor those of padding"
    for length in (*range(0, len(whole), 3000), len(whole) - 1):
        path.write_bytes(whole[:length])
        assert not answers(con, query, right)
    path.write_bytes(whole)
    assert answers(con, query, right)


@pytest.mark.nightly
def test_each_bit_of_a_small_file(root, con) -> None:
    """Blocks of one weight: a bit of the directory makes an empty block of one."""
    ids = np.array([5, 10**6, 2 * 10**6])
    version = root.publish_pairs("m", [(ids, np.array([1.0, 2.0, 4.0]))], "float64")
    path, model = version.path(root.path / "m"), literal(version.reference)
    query = f"SELECT predict({model}, sparse({ids.tolist()}, [1.0, 1, 1]))"
    (right,) = con.execute(query).fetchall()
    assert right == (7.5,)
    whole = path.read_bytes()
    begin = 32 + 3 * 16
    for place in [*range(begin, begin + 3 * 24), *range(len(whole) - 128, len(whole))]:
        for bit in range(8):
            spoiled = bytearray(whole)
            spoiled[place] ^= 1 << bit
            path.write_bytes(spoiled)
            assert not answers(con, query, right)


def answers(con: duckdb.DuckDBPyConnection, query: str, right: tuple) -> bool:
    try:
        (found,) = con.execute(query).fetchall()
    except duckdb.Error as error:
        told = str(error)
        assert "is damaged" in told or "is no sealed model" in told or "has version" in told
        return False
    assert found == right, "another model"
    return True


def test_another_content_and_another_version_of_the_format(root, con) -> None:
    versions = [root.publish_weights("m", np.full(9, float(i))) for i in range(2)]
    path, other = (v.path(root.path / "m") for v in versions)
    whole = path.read_bytes()
    path.write_bytes(other.read_bytes())
    model = literal(versions[0].reference)
    assert "is another model than the one asked for" in refusal(con, model)
    head = whole[:8] + struct.pack("<I", 2) + whole[12:28]
    path.write_bytes(head + struct.pack("<I", crc32c(head)) + whole[32:])
    assert "has version 2, this tuskml reads 1" in refusal(con, model)


def test_summary_says_where_the_coefficients_are(root, con) -> None:
    reference = root.publish_weights("m", np.ones(3)).reference
    model = literal(reference)
    with pytest.raises(duckdb.Error, match=f"tuskml store export {reference} FILE"):
        con.execute(f"FROM model_summary({model})").fetchall()


# --- where stores lie ---


def test_the_root_is_the_databases(root, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TUSKML_STORE_ROOT", str(tmp_path / "environment"))
    with tuskml.connect() as con:
        assert ask(con, "tuskml_store_root()") == str(tmp_path / "environment")
        tuskml.load(con, root.path)
        assert ask(con.cursor(), "tuskml_store_root()") == str(root.path)
        tuskml.load(con)
        assert ask(con, "tuskml_store_root()") == str(root.path)
        with pytest.raises(duckdb.Error, match="path is not absolute"):
            con.execute("SELECT tuskml_set_store_root('stores')").fetchall()
        assert ask(con, "tuskml_set_store_root(NULL)") is None
        assert ask(con, "tuskml_store_root()") == str(root.path)


def test_the_trainer_is_told(root, con, monkeypatch) -> None:
    told = []

    def answer(library, pointer, account=None) -> None:
        told.append(pointer.contents.store_root)
        raise DataError("nothing is trained")

    monkeypatch.setattr("tuskml.groups.contract.trainer.answer", answer)
    with pytest.raises(duckdb.Error, match="nothing is trained"):
        con.execute("SELECT train_model('linear', x, [x]) FROM range(9) t(x)")
    assert told == [str(root.path).encode()]


# --- more than two classes ---


def of_classes(reference: str, classes: list[int]) -> str:
    return literal(reference, "logistic").replace("[3, 7]", str(classes))


@pytest.mark.parametrize(
    "row", ["[1.0, 2.0]", "[1.0, 2.0]::FLOAT[]", "sparse([1, 0, 9], [2.0, 1, 5])"]
)
def test_the_weights_of_three_classes_lie_side_by_side(con, root, row) -> None:
    """The intercepts first, then those of each feature; what is beyond weighs nothing."""
    weights = np.array([[0.1, 0.2, -0.3], [1.0, 0.0, 0.5], [-1.0, 0.25, 0.5]])
    model = of_classes(root.publish_weights("many", weights.ravel()).reference, [3, 5, 7])
    margins = np.array([1.0, 1.0, 2.0]) @ weights
    shares = np.exp(margins) / np.exp(margins).sum()
    assert ask(con, f"predict({model}, {row})") == 7
    found = ask(con, f"_tusk_predict_probas(struct_extract({model}, 'payload'), {row})")
    assert found == pytest.approx(shares, rel=1e-12)


def test_more_classes_than_a_model_may_have(con, root) -> None:
    reference = root.publish_weights("many", np.ones(2002)).reference
    most = of_classes(reference, list(range(1000)))
    assert ask(con, f"predict({most}, [1.0])") == 0
    with pytest.raises(duckdb.Error, match="the model has 1001 classes, a store has 1000 at most"):
        ask(con, f"predict({of_classes(reference, list(range(1001)))}, [1.0])")


def test_an_id_of_no_feature_of_three_classes(con, root) -> None:
    model = of_classes(root.publish_weights("many", np.ones(9)).reference, [3, 5, 7])
    with pytest.raises(duckdb.Error, match="feature id -1 is negative"):
        ask(con, f"predict({model}, {{'indices': [-1], 'values': [1.0]}})")
