"""Why no GPU can be used, in words: package, driver, device."""

import builtins
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tuskml.kernels.gpu import cuda, placement


class RuntimeError_(Exception):
    """As CuPy's CUDARuntimeError."""


def runtime(driver=13000, devices=1, error=None):
    def count():
        if error is not None:
            raise RuntimeError_(error)
        return devices

    return SimpleNamespace(
        driverGetVersion=lambda: driver, getDeviceCount=count, CUDARuntimeError=RuntimeError_
    )


def found(monkeypatch, capability="90", compiler=None, **how):
    """What `availability` says of a machine like that."""
    device = SimpleNamespace(compute_capability=capability)

    def version():
        if compiler is not None:
            raise RuntimeError(compiler)
        return (13, 0)

    cuda_ = SimpleNamespace(
        runtime=runtime(**how), Device=lambda: device, nvrtc=SimpleNamespace(getVersion=version)
    )
    module = SimpleNamespace(cuda=cuda_)
    monkeypatch.setitem(sys.modules, "cupy", module)
    return cuda.first_look.__wrapped__()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"driver": 0}, "there is no NVIDIA driver on this machine"),
        ({"devices": 0}, "the NVIDIA driver sees no device"),
        (
            {"error": "cudaErrorNoDevice: no CUDA-capable device is detected\nmore"},
            "CUDA finds no usable device (cudaErrorNoDevice: no CUDA-capable device is detected)",
        ),
        (
            {"compiler": "libnvrtc.so.13: cannot open shared object file\nmore"},
            "CUDA's compiler NVRTC cannot be loaded (libnvrtc.so.13: cannot open shared object "
            "file): pip install 'tuskml[gpu]'",
        ),
        ({"capability": "75"}, "the GPU has compute capability 7.5, at least 8.0 is needed"),
        ({}, None),
    ],
)
def test_machines(monkeypatch, how, words):
    assert found(monkeypatch, **how) == words


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    words = cuda.first_look.__wrapped__()
    assert words == "CuPy is not installed: pip install 'tuskml[gpu]'"


def look_where_cupy_raises(monkeypatch, error):
    """What a look for a GPU says where the import of CuPy fails."""
    real = builtins.__import__

    def broken(name, *rest):
        if name == "cupy":
            raise error
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", broken)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    return cuda.first_look.__wrapped__()


def test_a_package_that_cannot_be_loaded(monkeypatch):
    missing = ImportError("libcublas.so.12: cannot open shared object file\nand more")
    words = look_where_cupy_raises(monkeypatch, missing)
    assert words.startswith("CuPy cannot be imported (libcublas.so.12: cannot open shared")
    assert "more" not in words


def test_nothing_but_cuda_py_imports_cupy(root, folders):
    importing = [
        path.relative_to(root).as_posix()
        for folder in folders
        for path in (root / folder).rglob("*.py")
        if "import cupy" in path.read_text()
    ]
    assert importing == ["kernels/gpu/cuda.py"]


def test_cupy_is_not_imported_unless_it_is_asked_for(root):
    """A training of small groups costs no look for a GPU."""
    import subprocess

    code = (
        "import sys, tuskml; con = tuskml.connect();"
        "con.execute(\"SELECT train_model('linear', x, [x * x]) FROM range(9) t(x)\").fetchall();"
        "print('cupy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split()[-1] == "False"  # behind the progress bar of a busy machine


def test_any_failure_of_the_import_is_a_reason(monkeypatch):
    words = look_where_cupy_raises(monkeypatch, PermissionError("the home is read-only\nand more"))
    assert words.startswith("CuPy cannot be imported (the home is read-only): pip")


def test_kernels_are_kept_where_a_home_cannot_be_written(monkeypatch, tmp_path):
    monkeypatch.delenv("CUPY_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    cuda.keep_kernels_somewhere()
    assert "CUPY_CACHE_DIR" not in os.environ
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    cuda.keep_kernels_somewhere()
    folder = Path(os.environ["CUPY_CACHE_DIR"])
    monkeypatch.setenv("CUPY_CACHE_DIR", str(folder))
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.rmdir()


def test_auto_weighs_the_cpu_s_threads_against_what_a_gpu_takes(monkeypatch):
    """Twice the threads spare half as much, and a GPU that is there already costs less."""
    found = {}
    for used in (False, True):
        monkeypatch.setattr(cuda, "in_use", lambda used=used: used)
        for threads in (2, 16):
            monkeypatch.setattr(placement.budget, "threads", lambda n=threads: n)
            found[used, threads] = placement.least_bytes()
    assert 1 << 30 < found[False, 2] < 2 << 30
    assert found[False, 16] > 8 * found[False, 2]
    assert found[True, 2] < found[False, 2] / 3


@pytest.mark.parametrize(("cost", "reason"), [(2, None), (64, "in double at 1/64 of its speed")])
def test_auto_leaves_gpus_with_slow_doubles_alone(monkeypatch, cost, reason):
    monkeypatch.setattr(cuda, "availability", lambda: None)
    monkeypatch.setattr(cuda, "device", lambda: SimpleNamespace(double_cost=cost))
    words = placement.refusal("auto", False, 1 << 50)
    assert words is None if reason is None else reason in words
    assert placement.refusal("gpu", False, 1 << 50) is None
