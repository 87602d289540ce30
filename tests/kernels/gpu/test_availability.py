"""Why no GPU can be used, in words: package, driver, device."""

import builtins
import sys
from types import SimpleNamespace

import pytest

from tuskml.kernels.gpu import cuda


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
    return cuda.availability.__wrapped__()


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
    words = cuda.availability.__wrapped__()
    assert words == "CuPy is not installed: pip install 'tuskml[gpu]'"


def test_a_package_that_cannot_be_loaded(monkeypatch):
    real = builtins.__import__

    def broken(name, *rest):
        if name == "cupy":
            raise ImportError("libcublas.so.12: cannot open shared object file\nand more")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", broken)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    words = cuda.availability.__wrapped__()
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
    assert done.stdout.strip() == "False"
