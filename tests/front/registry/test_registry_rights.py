"""A role without a right to the registry is told which GRANT it needs, and the GRANT is enough."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tuskml import DataError, registry


@pytest.fixture
def others(place: Any, cluster: Any) -> Iterator[Any]:
    """The connection of a member of tuskml_user, to whom nothing else was granted."""
    place.sql('CREATE ROLE "Other" LOGIN IN ROLE tuskml_user')
    with cluster.connect(place.connection.info.dbname, user="Other") as connection:
        yield connection
    place.sql('DROP OWNED BY "Other" CASCADE; DROP ROLE "Other"')


@pytest.mark.parametrize("place", ["postgres"], indirect=True)  # DuckDB has no users
@pytest.mark.parametrize("action", ["deploy", "rollback", "drop"])
def test_a_right_that_is_missing_is_named(place: Any, others: Any, action: str) -> None:
    name = f"rights_{action}"
    for _ in range(2):
        registry.register(place.connection, name, place.fit())
        registry.deploy(place.connection, name)
    work = getattr(registry, action)
    with pytest.raises(
        DataError, match=f'"Other" may not {action} models: GRANT .* which postgres may do'
    ) as raised:
        work(others, name)
    grant = re.search(r"GRANT .*? TO \"Other\"", str(raised.value))
    assert grant is not None
    place.sql(grant[0])
    assert work(others, name) >= 0
