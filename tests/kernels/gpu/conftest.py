"""Lets the tests here import `standin`, and gives them devices."""

import sys
from pathlib import Path

import pytest

sys.path += [str(Path(__file__).parent), str(Path(__file__).parent / "stand_in")]

from standin import StandIn


def gpu_missing():
    """Why there is no GPU to test on; None: there is one."""
    from tuskml.kernels.gpu import availability

    return availability()


@pytest.fixture(
    params=["stand-in", pytest.param("gpu", marks=pytest.mark.gpu)],
)
def device(request):
    """What stands in for a GPU, and a GPU where there is one."""
    if request.param == "gpu":
        if gpu_missing():
            pytest.skip(f"needs a GPU: {gpu_missing()}")
        from tuskml.kernels.gpu import cuda

        return cuda.device()
    return StandIn()


@pytest.fixture
def standing_in(monkeypatch):
    """Trainings with device 'gpu' run on the stand-in, which is returned."""
    from tuskml.kernels.gpu import cuda

    made = StandIn(order=2)
    monkeypatch.setattr(cuda, "availability", lambda: None)
    monkeypatch.setattr(cuda, "device", lambda: made)
    return made


@pytest.fixture
def failing(standing_in, monkeypatch):
    """The same, and each kernel's launch fails as CuPy says it."""

    class OutOfMemoryError(MemoryError):
        __module__ = "cupy.cuda.memory"

    def launch(self, *given):
        raise OutOfMemoryError("Out of memory allocating 4,096 bytes\nmore")

    monkeypatch.setattr(type(standing_in), "launch", launch)


@pytest.fixture
def cancelling(standing_in, monkeypatch):
    """The same, and each kernel's launch cancels all trainings."""
    import tuskml

    launch = type(standing_in).launch

    def cancelled(self, *given):
        launch(self, *given)
        tuskml.cancel()

    monkeypatch.setattr(type(standing_in), "launch", cancelled)
