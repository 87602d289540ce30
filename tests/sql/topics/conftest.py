import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))

from topic_rows import documents, fill


@pytest.fixture
def ask(session: tuple[str, Any]) -> Any:
    name, connection = session
    fill(name, connection, documents())

    def asked(sql: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
        return found

    asked.db = name
    return asked
