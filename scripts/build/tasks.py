"""Writes the files derived from the table of tasks, `udas/rowblock/tasks.h`.

python scripts/build/tasks.py            writes them

python scripts/build/tasks.py --check    names the files that are stale
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "udas" / "rowblock" / "tasks.h"
ROW = re.compile(
    r"TASK\((\w+), (\w+), ([A-Z]+), ([A-Z_]+), ([A-Z_]+), ([A-Z]+), ([A-Z]+), "
    r'"([^"]*)", \\?\s*"([^"]*)"\)'
)
TERMLESS = ("BOOSTED", "NET", "MACHINE", "CENTRES")
"""Kinds whose coefficients are not terms of features (`has_terms` in models/kinds.c)."""
WEIGHTLESS = (*TERMLESS, "FACTORIZATION", "TOPICS", "ORDINAL")
"""Kinds without one coefficient per feature."""
PYTHON = '''\
"""The built-in tasks; `scripts/build/tasks.py` writes this from `udas/rowblock/tasks.h`."""

from typing import NamedTuple


class TaskRow(NamedTuple):
    """A task as the table has it, whose columns the header describes, in lower case.

    metric: None where it is that of its labels.
    """

    learner: str
    kind: str
    response: str
    labels: str
    test: str | None
    metric: str | None
    formula: str


TASK_TABLE = {
%s}
"""By name, in the order of the manual."""
'''
DBT = """\
{# The built-in tasks and what their labels are; scripts/build/tasks.py writes this. #}
{%% macro labels_by_task() %%}
  {{ return({
%s  }) }}
{%% endmacro %%}
"""
TESTS = {"STUDENT": '"t"', "NORMAL": '"z"', "UNTESTED": "None"}


class Row(NamedTuple):
    """One line of the table."""

    name: str
    learner: str
    kind: str
    response: str
    labels: str
    test: str
    rows: str
    metric: str
    formula: str


def rows() -> list[Row]:
    """The table. Raises ValueError if it has a line of another form."""
    text = TABLE.read_text()
    text = text[text.index("#define TUSK_TASK_TABLE(TASK)") :].split("\n", 1)[1]
    found = [Row(*groups) for groups in ROW.findall(text)]
    if len(found) != text.count("TASK("):
        raise ValueError(f"{TABLE} has a line that is not TASK(name, SCORER, ..., formula)")
    return found


def python() -> str:
    """The module `tuskml.udas.tasks`."""
    lines = []
    for row in rows():
        metric = f'"{row.metric}"' if row.metric else "None"
        lines.append(
            f'    "{row.name}": TaskRow(\n'
            f'        learner="{row.learner}",\n'
            f'        kind="{row.kind.lower()}",\n'
            f'        response="{row.response.lower()}",\n'
            f'        labels="{row.labels.lower()}",\n'
            f"        test={TESTS[row.test]},\n"
            f"        metric={metric},\n"
            f'        formula="{row.formula}",\n'
            "    ),\n"
        )
    return PYTHON % "".join(lines)


def dbt() -> str:
    """The macro of dbt's package."""
    return DBT % "".join(f"    '{row.name}': '{row.labels.lower()}',\n" for row in rows())


def sql_texts(names: list[str]) -> str:
    """Texts in SQL."""
    return ", ".join(f"'{name}'" for name in names)


def sql() -> dict[str, str]:
    """By file, the lines that distinguish tasks in SQL."""
    termless = sql_texts([row.name for row in rows() if row.kind in TERMLESS])
    weightless = sql_texts([row.name for row in rows() if row.kind in WEIGHTLESS])
    trees = sql_texts([row.name for row in rows() if row.kind == "BOOSTED"])
    centres = sql_texts([row.name for row in rows() if row.kind == "CENTRES"])
    student = sql_texts([row.name for row in rows() if row.test == "STUDENT"])
    facts = {
        "has_terms": f"NOT IN ({termless})",
        "weighs_features": f"NOT IN ({weightless})",
        "is_of_trees": f"IN ({trees})",
        "has_centres": f"IN ({centres})",
        "is_tested_by_t": f"IN ({student})",
    }
    duckdb = "".join(
        f"CREATE OR REPLACE TEMP MACRO _tusk_{name}(task) AS task {test};\n"
        for name, test in facts.items()
    )
    postgres = "".join(
        f"CREATE FUNCTION tuskml._tuskml_{name}(task text) RETURNS boolean\n"
        "LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp\n"
        f"AS $$ SELECT task {test} $$;\n"
        for name, test in facts.items()
    )
    return {"sql/duckdb/macros.sql": duckdb, "sql/postgres/tuskml/10_types.sql": postgres}


BEGIN, END = "-- tasks (scripts/build/tasks.py)\n", "-- end of tasks\n"


def contents() -> dict[Path, str]:
    """The content of each file."""
    files = {
        ROOT / "udas" / "tasks.py": python(),
        ROOT / "dbt" / "macros" / "sql" / "tasks.sql": dbt(),
    }
    for name, lines in sql().items():
        path = ROOT / name
        before, rest = path.read_text().split(BEGIN)
        files[path] = before + BEGIN + lines + END + rest.split(END)[1]
    return files


def main(check: bool) -> int:
    """Writes the files that differ, or names them; how many differ where they are only named."""
    files = contents()
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is stale: run scripts/build/tasks.py")
        else:
            path.write_text(files[path])
    return len(stale) if check else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
