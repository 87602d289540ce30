"""Memory beside rows: arrays that go with their last view, and with nothing else."""

import ctypes
import json

import numpy as np
import pytest
from rows import account

import tuskml
from tuskml.kernels.library import Charges, memory_use


def test_arrays_are_written_and_aligned():
    charges = Charges(0)
    a = charges.empty((1000, 3), np.int32)
    b = charges.empty(77)
    assert a.ctypes.data % 64 == b.ctypes.data % 64 == 0
    a[:], b[:] = 7, 0.5
    assert a.sum() == 21_000
    assert b.sum() == 38.5
    assert charges.empty(0).shape == (0,)


def test_memory_goes_with_the_last_view():
    """Whoever made an array may have ended long before, as a generator's frame has."""

    def views():
        array = Charges(account()).empty(1 << 20)
        array[:] = 3.0
        yield array[10:20].reshape(2, 5)

    before = memory_use(account()).resident
    (part,) = list(views())
    assert memory_use(account()).resident >= before + (8 << 20)
    assert part.sum() == 30.0
    del part
    assert memory_use(account()).resident == before


def test_an_account_outlives_what_is_taken_from_it():
    """As where a database is closed while a model of its rows is still referenced."""
    with tuskml.connect() as con:
        ((at,),) = con.execute("SELECT _tusk_account()").fetchall()
        memory = ctypes.c_void_p.from_address(at).value
        array = Charges(memory).empty(1 << 20)
        array[:] = 3.0
    del con
    assert array.sum() == 3.0 * (1 << 20)
    assert memory_use(memory).resident >= 8 << 20


ROWS = 100_000


@pytest.mark.parametrize(
    ("task", "algorithm", "beside"),
    [("svm", "dcd", 29), ("svm", "newton", 57), ("logistic", "newton_cg", 8)],
)
def test_what_is_kept_for_each_row_is_charged_to_the_rows_account(
    new_con, tmp_path, task, algorithm, beside
):
    """Beyond the limit it lies in the spill file, and the model is the same."""
    new_con.execute(
        "CREATE TABLE t AS SELECT (i * 7919) % 1000 < 400 AS y, "
        f"[(i * 31) % 97, i % 83]::FLOAT[] AS x FROM range({ROWS}) r(i)"
    )

    def trained(name):
        """The model, and the most bytes so far."""
        given = {"algorithm": name, "l2": 0.1, "max_iter": 5, "deterministic": True}
        query = f"SELECT train_model('{task}', y, x, '{json.dumps(given)}') FROM t"
        ((model,),) = new_con.execute(query).fetchall()
        ((used,),) = new_con.execute("SELECT tuskml_memory()").fetchall()
        assert used["resident"] + used["spilled"] == 0
        return (model["coef"], model["intercept"], model["loss"]), used["peak"]

    new_con.execute("SELECT tuskml_set_memory(?, ?)", [1 << 30, str(tmp_path)]).fetchall()
    _, rows_alone = trained("lbfgs")
    model, peak = trained(algorithm)
    assert peak >= rows_alone + beside * ROWS
    new_con.execute("SELECT tuskml_set_memory(?, ?)", [500_000, str(tmp_path)]).fetchall()
    assert trained(algorithm)[0] == model
