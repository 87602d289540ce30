"""Runs dbt for the tests: one process, since to import dbt takes longer than to run it.

Reads a command as JSON from a line: its arguments, its environment, and the folder of its project,
to whose dbt.log goes what dbt prints. Answers in a line: whether it went well, and of each node
its status and message.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

# Files that no test reads would take a third of the time of a command.
os.environ |= {
    "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    "DBT_WRITE_JSON": "false",
    "DBT_LOG_LEVEL_FILE": "none",
}
# jsonschema checks IRIs by it, which nothing here has: to compile its grammar takes seconds.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]


def run(arguments: list[str]) -> dict[str, Any]:
    """What one command did."""
    from dbt.adapters.duckdb.connections import DuckDBConnectionManager
    from dbt.cli.main import dbtRunner

    done = dbtRunner().invoke(arguments)
    DuckDBConnectionManager.close_all_connections()  # the file is for the tests now
    found = {}
    for result in getattr(done.result, "results", None) or ():
        node = getattr(result, "node", None)
        if node is not None:
            found[node.name] = [str(result.status), str(result.message)]
    return {"success": done.success, "nodes": found, "error": str(done.exception or "")}


def run_in(folder: str, environment: dict[str, str], arguments: list[str]) -> dict[str, Any]:
    """The same in a project, whose environment is gone afterwards."""
    before = dict(os.environ)
    os.environ |= environment | {"DBT_PROFILES_DIR": folder}
    os.chdir(folder)
    with Path("dbt.log").open("ab") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    try:
        return run(arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.environ.clear()
        os.environ |= before


def main() -> None:
    """One line in, one line out."""
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        print(json.dumps(run_in(**json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
