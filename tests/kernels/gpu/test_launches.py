"""Launches hand kernels what their parameters are; the stand-in looks at each one."""

import numpy as np
import pytest
from signatures import parameters, refusals
from standin import MISSING, StandIn, compile_kernel
from test_compile import SOURCES, name_of

from tuskml.kernels.gpu import source


@pytest.mark.parametrize("kernel", SOURCES, ids=name_of)
def test_parameters_are_read_from_the_text(kernel):
    found = parameters(kernel)
    assert len({name for name, _, _ in found}) == len(found)
    assert all(name.isidentifier() for name, _, _ in found)
    assert any(points for _, _, points in found)


def test_macros_are_expanded():
    kernel = source.gradient(28, 8, 5000)
    assert parameters(kernel)[:2] == (("values", "double", True), ("labels", "double", True))
    assert ("loss_kind", "int", False) in parameters(kernel)
    assert ("class_weight", "double", True) in parameters(kernel)


def margins(**changed):
    """Arguments of `margins` for float rows, some of them others."""
    given = {
        "values": np.zeros((3, 2), np.float32), "n_rows": np.int64(3), "d": np.int64(2),
        "w": np.zeros(3), "out": np.zeros(3),
    }  # fmt: skip
    return list((given | changed).values())


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"n_rows": np.int32(3)}, "n_rows is int64, got int32 of int32"),
        ({"d": 2}, "d is int64, got int of no type"),
        ({"values": np.zeros((3, 2))}, "values is float *, got an array of float64"),
        ({"w": np.zeros((3, 2))[:, 0]}, "w is double *, got an array of float64"),
        ({"out": np.float64(1)}, "out is double *, got float64 of float64"),
        ({"out": None}, None),
        ({}, None),
    ],
)
def test_what_does_not_fit_is_told(changed, words):
    kernel = source.wide("margins", 4)
    found = refusals(kernel, margins(**changed), lambda given: isinstance(given, np.ndarray))
    assert found == ([] if words is None else [f"margins: {words}"])
    assert refusals(kernel, [], None) == ["margins has 5 parameters, got 0"]


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_the_stand_in_refuses_them():
    device, kernel = StandIn(), source.wide("margins", 4)
    compile_kernel(kernel)
    given = [device.to_device(each) if isinstance(each, np.ndarray) else each
             for each in margins(n_rows=np.int32(3))]  # fmt: skip
    with pytest.raises(AssertionError, match="n_rows is int64"):
        device.launch(kernel, (1, 1), given)
