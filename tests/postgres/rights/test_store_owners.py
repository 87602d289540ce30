"""Stored models belong to a role and a database; others read what they were let, and learn no name."""

# ruff: noqa: E501, SQL is read better on one line

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from sessions import Connect

from tuskml.kvstore import StoreRoot, list_stores

pytestmark = pytest.mark.fault(family="security")

ROWS = """
CREATE TABLE {name} AS
SELECT i, i % 3 AS g, sin(i * 0.7) > 0 AS y, ARRAY[i % 7, 100 + i * 31 % 50]::int[] AS ids, ARRAY[1, sin(i * 0.7)]::float8[] AS vals
FROM generate_series(1, 300) AS i
"""
NOT_YOURS = r"there is no stor.*that you may read: it is not there, or its owner has not called grant_store for your role"
ROLES = ("ann", "bob", "team", "member")


@pytest.fixture(scope="module", autouse=True)
def roles(pg: psycopg.Connection) -> Iterator[None]:
    for role in ROLES:
        pg.execute(
            f"CREATE ROLE {role} LOGIN; GRANT tuskml_user TO {role}; GRANT CREATE ON SCHEMA public TO {role}"
        )
    pg.execute("GRANT team TO member")
    pg.execute(ROWS.format(name="rows") + "; GRANT SELECT ON rows TO PUBLIC")
    yield
    for role in ROLES:
        pg.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.fixture(scope="module")
def opened(cluster, database: str) -> Iterator[dict[str, psycopg.Connection]]:
    """A session of each role for all tests: the first training of one takes most of a second."""
    with ExitStack() as stack:
        yield {role: stack.enter_context(cluster.connect(database, user=role)) for role in ROLES}


@pytest.fixture
def connect(connect: Connect, opened: dict[str, psycopg.Connection]) -> Iterator[Connect]:
    """Those of roles are the module's, with settings as new; others are the test's."""
    yield lambda **options: opened[options["user"]] if options else connect()
    for session in opened.values():
        session.execute("RESET ROLE; RESET ALL")


@pytest.fixture(autouse=True)
def folder(cluster) -> Iterator[Path]:
    path = cluster.data / "tuskml" / "stores"
    shutil.rmtree(path.parent, ignore_errors=True)
    yield path
    shutil.rmtree(path.parent, ignore_errors=True)


def call(store: str = "private", **options: object) -> str:
    text = json.dumps({"store": store, "max_iter": 2, "epsilon": 0, "partition": 0} | options)
    return f"train_model('logistic', y::int, sparse(ids, vals), '{text}')"


def train(session: psycopg.Connection, store: str = "private", **options: object) -> str:
    return session.execute(
        f"SELECT (m).store FROM (SELECT {call(store, **options)} AS m FROM rows) AS s"
    ).fetchone()[0]


def predict(session: psycopg.Connection, reference: str) -> float:
    """By a model value that anybody can write who knows the reference."""
    options = f'{{"tuskml":1,"store":"{reference}"}}'
    fields = json.dumps({"task": "linear", "intercept": 0, "options": options, "store": reference})
    model = f"with_payload(jsonb_populate_record(NULL::tuskml_model, '{fields}'))"
    return session.execute(
        f"SELECT predict({model}, sparse(ARRAY[0, 1], ARRAY[1.0, 2.0]))"
    ).fetchone()[0]


def refused(session: psycopg.Connection, act, *given: object, **options: object) -> str:
    with pytest.raises(psycopg.errors.UndefinedObject, match=NOT_YOURS) as raised:
        act(session, *given, **options)
    assert session.execute("SELECT 1").fetchone() == (1,)
    return raised.value.diag.message_primary


def warm(session: psycopg.Connection, reference: str) -> str:
    return train(session, "mine", warm_start={"store": reference, "intercept": 0})


def test_others_can_neither_read_nor_publish(connect: Connect, folder: Path) -> None:
    ann, bob = connect(user="ann"), connect(user="bob")
    reference = train(ann)
    assert reference.startswith("private@1:")
    assert isinstance(predict(ann, reference), float)
    for name in ("private", "private@1", reference):
        refused(bob, warm, name)
    refused(bob, predict, reference)
    # A training of that name is of another model, of bob's own.
    assert train(bob).startswith("private@1:")
    assert warm(bob, "private@1").startswith("mine@1:")
    owners = [(f["name"], f["owner"]["role"]) for f in list_stores(StoreRoot(folder))]
    assert owners == [("private", "ann"), ("mine", "bob"), ("private", "bob")]
    assert isinstance(predict(ann, reference), float)


def test_whether_a_name_is_there_is_not_told(connect: Connect) -> None:
    ann, bob = connect(user="ann"), connect(user="bob")
    reference = train(ann)
    pairs = [
        (warm, "private", "nothere"), (warm, "private@1", "nothere@1"),
        (warm, reference, reference.replace("private", "nothere")),
        (predict, reference, reference.replace("private", "nothere")),
        (train, "private", "nothere"),
    ]  # fmt: skip
    for act, there, none in pairs:
        more = {"resume": True} if act is train else {}
        assert refused(bob, act, there, **more).replace("private", "nothere") == refused(
            bob, act, none, **more
        )
    for function in ("grant_store", "revoke_store"):
        told = []
        for name in ("private", "nothere", "../x"):
            with pytest.raises(psycopg.errors.UndefinedObject, match="that is yours") as raised:
                bob.execute(f"SELECT {function}(%s, 'bob')", (name,))
            told.append(raised.value.diag.message_primary.replace(name, "N"))
        assert len(set(told)) == 1


@pytest.mark.nightly
def test_members_of_the_owner_and_superusers_read(pg, connect: Connect) -> None:
    team, member, bob = connect(user="team"), connect(user="member"), connect(user="bob")
    reference = train(team)
    for session in (pg, member):
        assert isinstance(predict(session, reference), float)
        assert warm(session, "private").startswith("mine@1:")
    refused(bob, predict, reference)
    member.execute("SET ROLE team")
    assert train(member).startswith("private@2:"), "as the team, the team's"
    member.execute("RESET ROLE")
    pg.execute("REVOKE team FROM member")
    try:
        refused(member, predict, reference)
        refused(member, warm, "private")
    finally:
        pg.execute("GRANT team TO member")


def test_grants(pg, connect: Connect) -> None:
    ann, bob, member = connect(user="ann"), connect(user="bob"), connect(user="member")
    reference = train(ann)
    ann.execute("SELECT grant_store('private', 'bob'); SELECT grant_store('private', 'team')")
    ann.execute("SELECT grant_store('private', 'bob')")
    for session in (bob, member):
        assert isinstance(predict(session, reference), float)
        assert warm(session, "private@1").startswith("mine@1:")
        with pytest.raises(psycopg.errors.UndefinedObject, match="that is yours"):
            session.execute("SELECT grant_store('private', 'public')")  # to read is not to own
    ann.execute("SELECT revoke_store('private', 'bob')")
    refused(bob, predict, reference)
    ann.execute("SELECT grant_store('private', 'public')")
    assert isinstance(predict(bob, reference), float)
    assert train(bob, l2=3).startswith("private@1:"), "nor to publish"
    assert isinstance(predict(bob, reference), float), "his own of that name is another model"
    ann.execute("SELECT revoke_store('private', 'public'), revoke_store('private', 'team')")
    with pytest.raises(psycopg.errors.UndefinedFile, match="is gone"):
        predict(bob, reference)  # of his own of that name, as if there were no other
    refused(member, predict, reference)
    with pytest.raises(psycopg.errors.UndefinedObject, match='role "nobody" does not exist'):
        ann.execute("SELECT grant_store('private', 'nobody')")
    with pytest.raises(psycopg.errors.NullValueNotAllowed):
        ann.execute("SELECT grant_store(NULL, 'bob')")
    with pytest.raises(
        psycopg.errors.AmbiguousParameter,
        match="2 roles have a store named 'private', expected one",
    ):
        pg.execute("SELECT grant_store('private', 'member')")


@pytest.mark.nightly
def test_a_session_that_changes_its_role_changes_its_rights(pg, connect: Connect) -> None:
    """Files that a backend has open are no way around them."""
    ann = connect(user="ann")
    reference = train(ann)
    session = connect()
    assert isinstance(predict(session, reference), float)
    session.execute("SET ROLE bob")
    refused(session, predict, reference)
    session.execute("SET ROLE ann")
    assert isinstance(predict(session, reference), float)
    assert train(session).startswith("private@2:")


def test_a_function_with_its_owners_rights_reads_for_others(connect: Connect) -> None:
    """PostgreSQL's own way to share what a model says, and not the model."""
    ann, bob = connect(user="ann"), connect(user="bob")
    ann.execute(f"CREATE TABLE kept AS SELECT {call()} AS m FROM rows")
    ann.execute("""CREATE FUNCTION answer(x int[]) RETURNS float8 SECURITY DEFINER SET search_path = public, pg_temp LANGUAGE sql
                   AS 'SELECT decision(m, sparse(x, ARRAY[1.0])) FROM kept'; GRANT EXECUTE ON FUNCTION answer TO bob""")
    assert (
        bob.execute("SELECT answer(ARRAY[1])").fetchone()
        == ann.execute("SELECT answer(ARRAY[1])").fetchone()
    )
    refused(bob, predict, ann.execute("SELECT (m).store FROM kept").fetchone()[0])


@pytest.mark.nightly
def test_another_database_has_other_models(cluster, pg, connect: Connect, folder: Path) -> None:
    reference = train(connect(user="ann"))
    cluster.create_database("tusk_elsewhere")
    try:
        with cluster.connect("tusk_elsewhere") as other:
            other.execute(ROWS.format(name="rows") + "; GRANT SELECT ON rows TO PUBLIC")
            assert isinstance(predict(other, reference), float), "a superuser has restored it"
        with cluster.connect("tusk_elsewhere", user="ann") as ann:
            refused(ann, predict, reference)
            refused(ann, warm, "private@1")
            assert train(ann).startswith("private@1:")
    finally:
        cluster.drop_database("tusk_elsewhere")
    found = {
        (f["name"], f["owner"]["database"], f["owner"]["role"])
        for f in list_stores(StoreRoot(folder))
    }
    assert found == {("private", name, "ann") for name in ("tusk_elsewhere", pg.info.dbname)}


def test_models_of_before_there_were_owners(cluster, pg, connect: Connect, folder: Path) -> None:
    """A store below the root itself: its model values answer as before, all else a superuser gives."""
    reference = train(pg, "ads")
    (own,) = folder.iterdir()
    (own / "ads").rename(folder / "ads")
    bob = connect(user="bob")
    assert isinstance(predict(bob, reference), float)
    refused(bob, warm, "ads")
    assert warm(pg, "ads").startswith("mine@1:")
    pg.execute("SELECT grant_store('ads', 'bob')")
    assert warm(bob, "ads").startswith("mine@1:")


def test_groups_of_a_statement_are_lineages(pg, connect: Connect, folder: Path) -> None:
    from tuskml.kvstore import Rules, collect

    ann = connect(user="ann")
    for plan in ("on", "off"):  # all groups in a batch, and each in one of its own
        ann.execute(f"SET enable_hashagg = {plan}")
        ann.execute(f"CREATE TABLE m_{plan} AS SELECT g, {call('ads')} AS m FROM rows GROUP BY g")
    facts = list_stores(StoreRoot(folder))
    assert [f["origin"]["ordinal"] for f in facts] == [1, 2, 3, 1, 2, 3]
    assert len({f["origin"]["training"] for f in facts}) == 2
    assert collect(StoreRoot(folder), rules=Rules(keep=0, older_than=-9)) == []
    found = ann.execute(
        "SELECT count(predict(m, sparse(ids, vals))) FROM rows JOIN m_on USING (g)"
    ).fetchone()
    assert found == (300,)


def test_links_among_the_readers_are_not_followed(
    cluster, connect: Connect, folder: Path, tmp_path: Path
) -> None:
    ann = connect(user="ann")
    train(ann)
    (own,) = folder.iterdir()
    (own / "private" / "readers").symlink_to(tmp_path)
    with pytest.raises(
        psycopg.errors.DataCorrupted, match="no directory, and links are not followed"
    ):
        ann.execute("SELECT grant_store('private', 'bob')")
    assert list(tmp_path.iterdir()) == []


def test_gc_keeps_what_a_database_names(cluster, pg, folder: Path, capsys) -> None:
    from tuskml.commands.cli import main

    for l2, table in enumerate("abc", 5):
        pg.execute(f"CREATE TABLE used_{table} AS SELECT {call('ads', l2=l2)} AS m FROM rows")
    pg.execute("CREATE TABLE several AS SELECT ARRAY[m] AS ms FROM used_b; DROP TABLE used_b")
    given = ["store", "gc", "--root", str(folder), "--older-than", "0s", "--keep", "0", "--yes"]
    url = f"postgresql:///{pg.info.dbname}?host={cluster.folder}&port={cluster.port}&user=postgres"
    assert main([*given, "--database", url]) == 0
    (own,) = folder.iterdir()
    assert StoreRoot(own).versions("ads") == [1, 2, 3]
    pg.execute("DROP TABLE used_a, several")
    assert main([*given, "--database", url]) == 0
    assert StoreRoot(own).versions("ads") == [3]
    assert "took its place" in capsys.readouterr().out
