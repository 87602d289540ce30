"""Runs dbt for the tests: one process, since to import dbt takes longer than to run it.

Reads a command's arguments as a JSON list from a line, and answers in a line: whether it went
well, and of each node its status and message.
"""

import json
import os
import sys
from typing import Any

# Files that no test reads would take a third of the time of a command.
os.environ |= {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "DBT_WRITE_JSON": "false"}
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


def main() -> None:
    """One line in, one line out; what dbt prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
