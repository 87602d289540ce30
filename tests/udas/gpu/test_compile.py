"""The kernels' text compiles for a GPU, by NVRTC as CuPy does it and by nvcc, without spills."""

import ctypes
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tuskml.udas.gpu import source
from tuskml.udas.gpu.source import Source

SOURCES = [
    source.gradient(28, 4, 5000),
    source.gradient(256, 4, 5000),
    source.gradient(16, 4, 100),
    source.gradient(1021, 4, 5000),
    source.gradient(1024, 8, 5000),
    source.curvature(16, 4, False),
    source.curvature(64, 8, True),
    source.solver(17),
    source.solver(65),
    source.newton(16, 4),
    source.newton(64, 8),
    source.epoch(28, 4, 32, False),
    source.epoch(28, 8, 1, True),
    source.wide("wide_panel", 4, 4),
    source.SUMS,
]
ARCHITECTURE = "sm_90"


def name_of(kernel: Source) -> str:
    return kernel.kernel + "".join(f"-{value}" for _, value in kernel.macros)


def libraries():
    """Where NVRTC may be: the wheels that come with CuPy, and CUDA's own folders."""
    for place in sys.path:
        yield from sorted(Path(place).glob("nvidia/*/lib/libnvrtc.so.*"))
    yield from sorted(Path("/usr/local").glob("cuda*/lib64/libnvrtc.so.*"))


@pytest.fixture(scope="module")
def nvrtc():
    for path in libraries():
        if "builtins" not in path.name:
            return ctypes.CDLL(str(path))
    pytest.skip("NVRTC is not installed: pip install nvidia-cuda-nvrtc")


@pytest.mark.parametrize("kernel", SOURCES, ids=name_of)
def test_by_nvrtc(nvrtc, kernel):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    text = kernel.text().encode()
    code = nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"kernel.cu", 0, None, None)
    assert code == 0
    options = [f"-arch={ARCHITECTURE}".encode(), b"--std=c++17"]
    code = nvrtc.nvrtcCompileProgram(program, 2, (ctypes.c_char_p * 2)(*options))
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    assert code == 0, log.value.decode()


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("kernel", SOURCES, ids=name_of)
def test_by_nvcc(kernel, tmp_path):
    (tmp_path / "kernel.cu").write_text(kernel.text())
    command = ["nvcc", f"-arch={ARCHITECTURE}", "-std=c++17", "-cubin", "-Xptxas", "-v"]
    done = subprocess.run(
        [*command, "-o", "kernel.cubin", "kernel.cu"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    spilled = re.findall(r"(\d+) bytes spill stores", done.stderr)
    assert spilled
    assert set(spilled) == {"0"}


@pytest.mark.parametrize("size", [4, 8])
def test_shared_memory_is_at_most_a_block_s(size):
    for d in range(1, source.MOST_FUSED + 1):
        assert source.gradient(d, size, 5000).shared <= source.MOST_SHARED
    for d in range(1, source.MOST_GROUPED + 1):
        assert source.curvature(d, size, True).shared <= source.MOST_SHARED
        assert source.newton(d, size).shared <= source.MOST_SHARED
        assert source.solver(d + 1).shared <= source.MOST_SHARED
