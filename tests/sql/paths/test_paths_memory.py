"""What fits of dense rows copy is charged to the account of the rows, and may lie on the disk."""

import pytest

ROWS, FEATURES, MOVING = 2000, 400, 100


@pytest.mark.parametrize(("task", "copies"), [("lasso", 1), ("sparse_logistic", 2)])
def test_copied_columns_are_charged(new_con, tmp_path, task, copies):
    """Most of the features are in the working set, once as they are and once for a quadratic
    approximation of the logistic loss. Below a limit models are the same."""
    new_con.execute(
        f"CREATE TABLE t AS SELECT (i * 7919) % 1000 < 400 AS y, "
        f"list_transform(range({FEATURES}), lambda j: ((i * 37 + j * j * 11 + i * j) % 101) / 101."
        f") AS x FROM range({ROWS}) r(i)"
    )

    def trained(options):
        """The model, and the most bytes so far."""
        query = f"SELECT train_model('{task}', y, x, '{options}') FROM t"
        ((model,),) = new_con.execute(query).fetchall()
        ((used,),) = new_con.execute("SELECT tuskml_memory()").fetchall()
        assert used["resident"] + used["spilled"] == 0
        return (model["coef"], model["intercept"], model["loss"]), used["peak"]

    new_con.execute("SELECT tuskml_set_memory(?, ?)", [1 << 30, str(tmp_path)]).fetchall()
    _, rows_alone = trained('{"lambda": 100}')
    model, peak = trained('{"lambda": 1e-4}')
    assert sum(w != 0 for w in model[0]) > MOVING
    assert peak >= rows_alone + 8 * ROWS * copies * MOVING
    new_con.execute("SELECT tuskml_set_memory(?, ?)", [500_000, str(tmp_path)]).fetchall()
    assert trained('{"lambda": 1e-4}')[0] == model
