"""The first steps of a new user with a wheel on a machine without a compiler: python
fresh_wheel.py

It trains a model per group by `tuskml.connect()`, and after `tuskml install` in a new process by a
plain connection of DuckDB, in a home directory of its own.
"""

import os
import shutil
import subprocess
import sys
import tempfile

SQL = """
CREATE TABLE days AS
SELECT i % 3 AS shop, i % 20 AS temperature, i % 2 AS weekend,
       40 + (1 + i % 3) * (i % 20) + 10 * (i % 2) AS sold FROM range(300) t(i);
CREATE TABLE models AS
SELECT shop, train_model('linear', sold, [temperature, weekend]) AS model FROM days GROUP BY shop;
"""
ASKED = """
SELECT shop, round(model.coef[1], 9), model.status, round(predict(model, [25, 1]), 9)
FROM models ORDER BY shop
"""
EXPECTED = [(0, 1.0, "ok", 75.0), (1, 2.0, "ok", 100.0), (2, 3.0, "ok", 125.0)]
PLAIN = f"""
import duckdb
con = duckdb.connect()
con.execute("LOAD tuskml FROM tuskml")
con.execute({SQL!r})
found = con.execute({ASKED!r}).fetchall()
assert found == {EXPECTED!r}, found
"""


def main() -> None:
    """Tries both ways, and says so."""
    compilers = [name for name in ("cc", "gcc", "g++", "c++", "clang") if shutil.which(name)]
    assert not compilers, f"a compiler is there: {compilers}"
    with tempfile.TemporaryDirectory() as home:
        os.environ["HOME"] = home
        for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
            os.environ.pop(name, None)
        import duckdb

        import tuskml

        with tuskml.connect() as con:
            con.execute(SQL)
            found = con.execute(ASKED).fetchall()
        assert found == EXPECTED, found
        if int(duckdb.__version__.split(".")[0]) >= 2:
            subprocess.run([sys.executable, "-m", "tuskml", "install"], check=True)
            subprocess.run([sys.executable, "-c", PLAIN], check=True)
    print(f"tuskml trains on Python {sys.version.split()[0]} with DuckDB {duckdb.__version__}")


if __name__ == "__main__":
    main()
