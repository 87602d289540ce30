"""The kernels' text compiles for a GPU, by NVRTC as CuPy does it and by nvcc, without spills."""

import ctypes
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from nets import RULES

from tuskml.kernels.gpu import source
from tuskml.kernels.gpu.nets import fused, orders
from tuskml.kernels.gpu.source import Source

SOURCES = [
    source.gradient(28, 4, 5000),
    source.gradient(256, 4, 5000),
    source.gradient(16, 4, 100),
    source.gradient(1021, 4, 5000),
    source.gradient(1024, 8, 5000),
    source.curvature(16, 4),
    source.curvature(64, 8),
    source.solver(17),
    source.solver(65),
    source.newton(16, 4),
    source.newton(28, 8),
    source.newton(64, 8),
    source.epoch(28, 4, 32, False),
    source.epoch(28, 8, 1, True),
    source.wide("wide_rows", 4),
    source.wide("wide_columns", 8),
    source.wide("wide_panel", 4, 4),
    source.wide("margins", 4),
    source.SUMS,
    source.factors("train_ratings", 10, False),
    source.factors("train_ratings", 100, True),
    source.factors("train_ratings", 1023, True),
    source.factors("train_ratings", 4096, True),
    source.factors("rating_errors", 100, True),
    source.factors("squares", 100, True),
    source.factors("start_vectors", 100, True),
    orders.source_of(2000),
    fused.source_of((28, 32, 1), replace(RULES, loss=1)),
    fused.source_of((28, 64, 33, 3), replace(RULES, loss=2, activation=2, algorithm=1, batch=7)),
    fused.source_of((300, 1), replace(RULES, activation=1)),
]
ARCHITECTURE = "sm_90"
REGISTERS = 1 << 16
"""Of a multiprocessor."""
SPILLED = {"newton": 512}
"""Bytes that may be: with more blocks on a multiprocessor, and so fewer registers for each thread,
a launch was faster on an H200."""
BY_CUPY = [
    "--std=c++17",
    "-ftz=true",
    f"-arch={ARCHITECTURE}",
    "--device-as-default-execution-space",
]


def name_of(kernel: Source) -> str:
    return kernel.kernel + "".join(f"-{value}" for _, value in kernel.macros)


def libraries():
    """Where NVRTC may be: the wheel of tuskml[test], those of other packages, CUDA's own folders.

    PyTorch may bring NVRTC of another CUDA, in a folder whose name sorts before the wheel's.
    """
    for folder in ("cuda_nvrtc", "*"):
        for site in sys.path:
            yield from sorted(Path(site).glob(f"nvidia/{folder}/lib/libnvrtc.so.*"))
    yield from sorted(Path("/usr/local").glob("cuda*/lib64/libnvrtc.so.*"))


@pytest.fixture(scope="module")
def nvrtc():
    for path in libraries():
        if "builtins" not in path.name:
            return ctypes.CDLL(str(path))
    pytest.skip("NVRTC is not installed: pip install nvidia-cuda-nvrtc")


def by_nvrtc(nvrtc, kernel, options):
    """Whether it compiles, and what the compiler says."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    text = kernel.text().encode()
    code = nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"kernel.cu", 0, None, None)
    assert code == 0
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    code = nvrtc.nvrtcCompileProgram(program, len(options), given)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return code == 0, log.value.decode()


def told(log: str, kernel: Source) -> tuple[int, int]:
    """Bytes spilled and registers of a thread, of the kernel itself."""
    _, _, of_kernel = log.partition(f"Compiling entry function '{kernel.kernel}'")
    spilled = re.search(r"(\d+) bytes spill stores", of_kernel)
    registers = re.search(r"Used (\d+) registers", of_kernel)
    assert spilled, log
    assert registers, log
    return int(spilled[1]), int(registers[1])


@pytest.mark.sample(5)
@pytest.mark.parametrize("kernel", SOURCES, ids=name_of)
def test_by_nvrtc(nvrtc, kernel):
    """With CuPy's options, and the assembler's report of what a thread takes."""
    compiled, log = by_nvrtc(nvrtc, kernel, [*BY_CUPY, "--ptxas-options=-v"])
    assert compiled, log
    spilled, registers = told(log, kernel)
    assert spilled <= SPILLED.get(kernel.kernel, 0)
    assert registers * kernel.threads <= REGISTERS


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize(
    "kernel",
    [source.SUMS, *(pytest.param(one, marks=pytest.mark.nightly) for one in SOURCES)],
    ids=name_of,
)
def test_by_nvcc(kernel, tmp_path):
    (tmp_path / "kernel.cu").write_text(kernel.text())
    command = ["nvcc", f"-arch={ARCHITECTURE}", "-std=c++17", "-cubin", "-Xptxas", "-v"]
    done = subprocess.run(
        [*command, "-o", "kernel.cubin", "kernel.cu"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    spilled, registers = told(done.stderr, kernel)
    assert spilled <= SPILLED.get(kernel.kernel, 0)
    assert registers * kernel.threads <= REGISTERS


@pytest.mark.parametrize("size", [4, 8])
def test_shared_memory_is_at_most_a_block_s(size):
    for d in range(1, source.MOST_FUSED + 1):
        assert source.gradient(d, size, 5000).shared <= source.MOST_SHARED
    for d in range(1, source.MOST_GROUPED + 1):
        assert source.curvature(d, size).shared <= source.LEAST_SHARED
        assert source.newton(d, size).shared <= source.LEAST_SHARED
        assert source.solver(d + 1).shared <= source.LEAST_SHARED
