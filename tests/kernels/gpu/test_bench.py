"""`scripts/bench/gpu/gpu.py` runs to its end, on the stand-in: its numbers mean nothing there."""

import json
import subprocess
import sys
import time

import fake_cupy
import pytest
from standin import StandIn


@pytest.mark.nightly
def test_every_figure_is_there(root, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "scripts" / "bench" / "gpu"))
    monkeypatch.delitem(sys.modules, "gpu", raising=False)
    import gpu

    monkeypatch.setattr(gpu, "GROUP_ROWS", 40)
    report = gpu.main(
        ["--scale", "1e-5", "--sql-rows", "0", "--json", str(tmp_path / "gpu.json")], StandIn()
    )
    assert json.loads((tmp_path / "gpu.json").read_text()) == report
    reached = {entry["work"]: entry["reached"] for entry in report["lines"]}
    assert None not in reached.values()
    assert report["failed"] == {}
    assert set(report["seconds"]) == {
        "ceilings", *(f"gradient pass, d={d}" for d in (28, 64, 100, 256, 1000)), "many groups",
        "lbfgs", "factorization", "nets",
    }  # fmt: skip
    assert len(reached) == 33
    rows = gpu.table(report).splitlines()
    assert rows[0].startswith("NumPy; ")
    assert report["date"] in rows[0]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows[4:]] == list(reached)
    off = {entry["work"]: entry["off"] for entry in report["lines"] if "off" in entry}
    checked = "pass", "lbfgs", "groups", "nets", "copy"
    assert all(any(word in work for work in off) for word in checked)


@pytest.mark.nightly
def test_it_runs_on_cupy_s_interface(root, tmp_path, monkeypatch):
    """As a machine with a GPU runs it, on a module with CuPy's signatures."""
    monkeypatch.syspath_prepend(str(root / "scripts" / "bench" / "gpu"))
    monkeypatch.delitem(sys.modules, "gpu", raising=False)
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.Module())
    import gpu

    from tuskml.kernels.gpu import cuda

    made = cuda.Cuda()
    monkeypatch.setattr(cuda, "availability", lambda: None)
    monkeypatch.setattr(cuda, "device", lambda: made)
    monkeypatch.setattr(gpu, "GROUP_ROWS", 40)
    report = gpu.main(["--scale", "1e-5", "--sql-rows", "300"])
    assert report["device"] == "a fake"
    assert report["failed"] == {}
    assert None not in [entry["reached"] for entry in report["lines"]]
    assert sum("off" in entry for entry in report["lines"]) > 15


def test_a_part_that_fails_does_not_end_the_others(root, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "scripts" / "bench" / "gpu"))
    monkeypatch.delitem(sys.modules, "gpu", raising=False)
    import gpu

    def fails():
        raise MemoryError("no room")

    report = gpu.Report(StandIn(), 1.0, 1, tmp_path / "gpu.json")
    report.add("one", fails)
    report.add("two", lambda: [gpu.line("work", "", 1.0)])
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert found["failed"] == {"one": "MemoryError: no room"}
    assert [entry["work"] for entry in found["lines"]] == ["work"]


def test_lines_are_written_before_their_part_ends(root, tmp_path, monkeypatch):
    """Also those of a part that fails later; without time left none begins."""
    monkeypatch.syspath_prepend(str(root / "scripts" / "bench" / "gpu"))
    monkeypatch.delitem(sys.modules, "gpu", raising=False)
    import gpu

    file = tmp_path / "gpu.json"

    def fails_late():
        yield gpu.line("first", "", 1.0)
        assert [entry["work"] for entry in json.loads(file.read_text())["lines"]] == ["first"]
        raise ValueError("later")

    report = gpu.Report(StandIn(), 1.0, 1, file)
    report.add("one", fails_late)
    report.end = report.began
    report.add("two", fails_late)
    found = json.loads(file.read_text())
    assert found["failed"] == {"one": "ValueError: later", "two": "no time was left"}
    assert [entry["work"] for entry in found["lines"]] == ["first"]


def test_the_cpu_s_training_ends_when_the_time_is_over(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "scripts" / "bench" / "gpu"))
    monkeypatch.delitem(sys.modules, "gpu", raising=False)
    import gpu

    lines = list(gpu.lbfgs(StandIn(), 400, 9, 1, True, time.monotonic() - 1))
    assert {"cpu_unfinished": True}.items() <= lines[-1].items()
    assert "off" not in lines[-1]


def test_a_wrong_result_is_no_figure(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "scripts" / "bench" / "gpu"))
    import gpu_common

    assert gpu_common.line("work", "", 2.0, off=1e-9)["off"] == 1e-9
    for off in (1e-3, float("nan")):
        with pytest.raises(ArithmeticError, match="work: the result is off by"):
            gpu_common.line("work", "", 2.0, off=off)


def test_options(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "scripts" / "bench" / "gpu"))
    monkeypatch.delitem(sys.modules, "gpu", raising=False)
    import gpu

    quick = gpu.asked(["--quick"])
    assert (quick.scale, quick.sql_rows) == (0.02, 400_000)
    whole = gpu.asked([])
    assert (whole.scale, whole.sql_rows) == (1.0, 20_000_000)
    assert whole.seconds + gpu.GRACE < 600
    assert gpu.asked(["--quick", "--scale", "0.5", "--sql-rows", "0"]).sql_rows == 0


def test_data_for_devices_without_a_generator(root, monkeypatch):
    """Uniform and normal numbers by a hash: moments, and no two alike."""
    monkeypatch.syspath_prepend(str(root / "scripts" / "bench" / "gpu"))
    import gpu_common
    import numpy as np

    u = gpu_common.uniforms(np, 100_000, 3)
    assert 0 < u.min() < u.max() < 1
    assert abs(u.mean() - 0.5) < 0.005
    assert len(np.unique(u)) == len(u)

    class NoGenerator:
        random = None

        def __getattr__(self, name):
            return getattr(np, name)

    z = gpu_common.normals(NoGenerator(), (50_000, 2), 1)
    assert z.shape == (50_000, 2)
    assert z.dtype == np.float32
    assert abs(z.mean()) < 0.01
    assert abs(z.std() - 1) < 0.01
    assert abs(np.corrcoef(z[:, 0], z[:, 1])[0, 1]) < 0.02


def test_a_plain_checkout_says_that_there_is_no_gpu(root):
    """Without the package, in an interpreter that sees NumPy alone."""
    code = (
        "import sys, runpy; sys.modules['cupy'] = None; sys.modules['duckdb'] = None;"
        f"sys.path = [p for p in sys.path if not p.startswith({str(root / '.links')!r})];"
        "sys.meta_path = [f for f in sys.meta_path if 'editable' not in repr(f)];"
        "sys.argv = ['gpu.py'];"
        f"runpy.run_path({str(root / 'scripts/bench/gpu/gpu.py')!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False,
        cwd="/",
    )  # fmt: skip
    assert "no GPU to measure: CuPy is not installed" in done.stderr


def test_through_sql_on_both_devices(root, standing_in, monkeypatch, capsys):
    """The GPU's training runs on the stand-in; memory has room for fewer rows than asked."""
    monkeypatch.syspath_prepend(str(root / "scripts" / "bench" / "gpu"))
    import gpu_sql

    monkeypatch.setattr(gpu_sql, "available_bytes", lambda: 4 * (4 * 9 + 8) * 400)
    lines = list(gpu_sql.through_sql(standing_in, 1000, 9, time.monotonic() + 60))
    assert "400 rows, which memory has room for" in capsys.readouterr().err
    assert ["gpu, seconds" in lines[0]["work"], "cpu, seconds" in lines[1]["work"]] == [True] * 2
    assert lines[2]["reached"] > 0
    assert lines[2]["unfinished"] == {}
    assert lines[2]["gpu_seconds"] >= lines[2]["gpu_training"] > 0
    assert "n=400" in lines[2]["work"]
    assert lines[3]["reached"] < 1e-6
    assert standing_in.launches
