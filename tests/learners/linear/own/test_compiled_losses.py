"""Losses that a user has compiled: they are called without Python, and may refuse."""

import ctypes
import subprocess

import duckdb
import numpy as np
import pytest
from fitting import fit
from own_rows import counted, own_tasks

import tuskml
from tuskml.errors import Interrupted, OperatorError, OptionError
from tuskml.kernels.open_rows import LOSS_FAILED, Calling, Open, OwnLoss

__all__ = ["counted", "own_tasks"]

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("own_tasks")]


SOURCE = """
#include <math.h>
#include <stdint.h>
int poisson(const double *m, const double *y, int64_t n, double *loss, double *d, double *h) {
    for (int64_t i = 0; i < n; i++) {
        double mean = exp(m[i]);
        loss[i] = mean - y[i] * m[i];
        d[i] = mean - y[i];
        if (h)
            h[i] = mean;
    }
    return 0;
}
int refusing(const double *m, const double *y, int64_t n, double *loss, double *d, double *h) {
    return 1;
}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loss")
    (folder / "loss.c").write_text(SOURCE)
    library = folder / "loss.so"
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", "-o", library, folder / "loss.c", "-lm"], check=True
    )
    return ctypes.CDLL(str(library))


def test_a_compiled_loss(con, counted, compiled):
    tuskml.register_task(
        "fast", address=compiled.poisson, curved=True, response="exp", likelihood=True
    )
    con.execute("CREATE OR REPLACE TABLE t AS SELECT * REPLACE (c AS y) FROM t")
    one, two = (fit(con, task, epsilon=1e-10) for task in ("own_poisson", "fast"))
    np.testing.assert_allclose(one.coef, two.coef, rtol=1e-8)
    np.testing.assert_allclose(one.std_err, two.std_err, rtol=1e-8)
    assert (two.task, two.options["response"]) == ("fast", "exp")


def test_a_compiled_loss_may_refuse(con, counted, compiled):
    tuskml.register_task("no", address=ctypes.cast(compiled.refusing, ctypes.c_void_p).value)
    with pytest.raises(duckdb.Error, match="the compiled loss did not return 0"):
        fit(con, "no")


def test_a_key_pressed_on_the_way_to_the_function_is_an_interrupt():
    """Python drops what is raised before the function's first line; the kernel sees no 0."""
    for loss in ({"loss": np.add}, {"address": 1}):
        own = OwnLoss("mine", loss.get("loss"), None, None, loss.get("address"))
        raised = Interrupted if own.address is None else OperatorError
        with pytest.raises(raised):
            Calling(Open(own)).check(LOSS_FAILED)


@pytest.mark.parametrize("address", [0, "x", None, -3])
def test_addresses_that_cannot_be(address):
    with pytest.raises(OptionError, match=r"address|loss of task"):
        tuskml.register_task("mine", address=address)
