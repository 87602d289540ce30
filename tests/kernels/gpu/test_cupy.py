"""`cuda.py` on a module with CuPy's signatures, and those signatures against CuPy's own."""

import ast
import importlib.util
import inspect
import re
import sys

import fake_cupy
import numpy as np
import pytest
from rows import rows_pass
from standin import MISSING
from test_compile import SOURCES, name_of
from test_device_factorization import epochs, placed
from test_epochs import epoch_of
from test_factorization import ratings
from test_passes import close, groups_of, weights_of

from tuskml.kernels.gpu import cuda, predictions
from tuskml.kernels.gpu.passes import on_device

needs_compiler = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@pytest.fixture
def faked(monkeypatch):
    """`Cuda` on the fake."""
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.Module())
    assert cuda.first_look.__wrapped__() is None
    return cuda.Cuda()


@needs_compiler
@pytest.mark.parametrize("d", [5, 28, 300])
@pytest.mark.parametrize("budget", [None, 500])
def test_passes(faked, d, budget):
    """Rows come through pinned memory, all at once or in parts; sums are the CPU's."""
    groups, _ = groups_of((700, 3, 90), d)
    cpu, w = rows_pass(groups, "logistic"), weights_of(3, d)
    rows = on_device(cpu, faked, budget=None if budget is None else budget * (4 * d + 8))
    assert rows.on_device.resident == (budget is None)
    close(rows.gradient(w), cpu.gradient(w), 1e5)
    shift = np.zeros((3, d))
    if d < 100:
        found = rows.curvature(w, shift, shift + 1, True)
        close(found, cpu.curvature(w, shift, shift + 1, True), 1e6)


@needs_compiler
def test_epochs_and_predictions(faked):
    groups, data = groups_of((300, 20), 12)
    cpu = rows_pass(groups, "logistic")
    found = []
    for rows in (cpu, on_device(cpu, faked)):
        v = weights_of(2, 12)
        found.append((rows.sgd(epoch_of(2, 12, 16), v, None, shared=False), v))
    assert np.allclose(found[0][1], found[1][1], rtol=1e-9)
    x, _ = data[0]
    margins = predictions.decision(x, np.arange(12.0), 0.5, faked)
    assert np.allclose(margins, x.astype(float) @ np.arange(12.0) + 0.5)


@needs_compiler
@pytest.mark.parametrize("lock_free", [False, True])
def test_factorization(faked, lock_free):
    data = ratings(n_users=50, n_items=40, n=900)
    with placed(faked, *data, lock_free=lock_free, rank=6) as model:
        found = epochs(model, 3, lock_free=lock_free)
        assert found == sorted(found, reverse=True)
        assert model.objective() < found[0]


# --- CuPy's own, which is imported without a GPU ---


@pytest.fixture(scope="module")
def cupy():
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("CuPy is not installed: pip install 'tuskml[gpu]'")
    return importlib.import_module("cupy")


def parameters(function):
    """Names of parameters, in order, as `inspect` or Cython's first line of the docstring."""
    try:
        found = list(inspect.signature(function).parameters)
        if found[:1] == ["self"] and found[-1] == "kwargs":
            raise ValueError
        return found
    except (TypeError, ValueError):
        text = function.__doc__ or ""
        line = text.split("\n\n")[1] if "**kwargs" in text.split("\n")[0] else text.split("\n")[0]
        listed = re.search(r"\((.*)\)", line.replace("\\*", "*"))
        assert listed, text
        names = [each.split("=")[0].split()[-1] for each in listed[1].split(",") if each.strip()]
        return [name for name in names if name not in ("/", "*")]


PAIRS = [
    "RawKernel.__init__", "RawKernel.__call__", "asarray", "asnumpy", "get_default_memory_pool",
    "cuda.Stream.__init__", "cuda.Stream.wait_event", "cuda.Event.__init__", "cuda.Event.record",
    "cuda.Event.synchronize", "cuda.alloc_pinned_memory",
    "cuda.MemoryPointer.copy_from_host_async", "cuda.MemoryPointer.copy_from_device_async",
    "cuda.MemoryPool.free_bytes", "cuda.MemoryPool.free_all_blocks",
]  # fmt: skip


def resolved(module, path):
    """module.a.b.c."""
    for name in path.split("."):
        module = getattr(module, name)
    return module


@pytest.mark.parametrize("path", PAIRS)
def test_the_fake_has_cupy_s_signatures(cupy, path):
    fake = fake_cupy.MemoryPool if "MemoryPool." in path else fake_cupy.Module()
    ours = parameters(resolved(fake, path.rpartition(".")[2] if fake is not None
                               and "MemoryPool." in path else path))  # fmt: skip
    theirs = resolved(cupy, path)
    if path.endswith("__init__") and not inspect.isfunction(theirs):
        theirs = resolved(cupy, path.removesuffix(".__init__"))
    theirs = parameters(theirs)
    assert [n for n in ours if n != "self"] == [n for n in theirs if n != "self"]


def chains(tree, roots):
    """Attributes a.b.c of names, or of attributes of `self`, that are among the roots."""
    for node in ast.walk(tree):
        names, at = [], node
        while isinstance(at, ast.Attribute):
            names.insert(0, at.attr)
            at = at.value
        if not isinstance(at, ast.Name):
            continue
        if at.id == "self" and names[:1] and names[0] in roots:
            names = names[1:]
        elif at.id not in roots:
            continue
        if names:
            yield ".".join(names)


def used(root):
    """What the code calls of CuPy: `cupy.` in `cuda.py`, `xp.` everywhere."""
    found = set()
    files = [*(root / "kernels" / "gpu").glob("*.py"), *(root / "scripts/bench/gpu").glob("*.py")]
    for file in files:
        roots = {"xp", "cupy"} if file.name == "cuda.py" else {"xp"}
        found |= set(chains(ast.parse(file.read_text()), roots))
    return sorted(found)


def test_what_is_used_is_there(cupy, root):
    names = used(root)
    assert {"zeros", "argsort", "cuda.alloc_pinned_memory", "random.default_rng"} <= set(names)
    missing = []
    for name in names:
        try:
            resolved(cupy, name)
        except AttributeError:
            missing.append(name)
    assert missing == []


def test_cupy_compiles_the_kernels(cupy, monkeypatch):
    """Its own call of NVRTC, with the options that it adds itself, for a device as an H200."""
    from cupy.cuda import compiler

    arch = ("-arch=sm_90", "cubin")
    monkeypatch.setattr(compiler, "_get_arch_for_options_for_nvrtc", lambda given=None: arch)
    for kernel in SOURCES[:3]:
        options = ("--std=c++17", "-ftz=true")
        made, _ = compiler.compile_using_nvrtc(kernel.text(), options, "90")
        assert len(made) > 1000, name_of(kernel)
        assert kernel.kernel.encode() in made


def test_it_says_what_is_missing(cupy):
    """Of a machine without a driver or a device, by CuPy's own answers."""
    if cuda.availability() is None:
        pytest.skip("there is a GPU")
    assert re.match("there is no NVIDIA driver|the NVIDIA driver sees|CUDA finds no",
                    cuda.availability())  # fmt: skip
