"""Registry rows say who registered; nobody blocks or hijacks another's name."""

# ruff: noqa: E501, SQL is read better on one line

import itertools
from collections.abc import Iterator

import psycopg
import pytest
from sessions import Connect

pytestmark = pytest.mark.fault(family="security")

MODEL = "(SELECT model FROM public.trained)"
FIRST = f"register_model('fare', {MODEL})"
OTHERS = "the name 'fare' belongs to another role, expected a name of your own, or SET ROLE to one that registered it"
INSERT = (
    "INSERT INTO tuskml.models (name, group_key, version, model) VALUES ('fare', %s, %s, "
    + MODEL
    + ")"
)
OLD = """
CREATE TABLE tuskml.models (
    name text NOT NULL CHECK (name <> ''), group_key text NOT NULL DEFAULT '', version integer NOT NULL CHECK (version > 0),
    created timestamptz NOT NULL DEFAULT clock_timestamp(),
    stage text NOT NULL DEFAULT 'candidate' CHECK (stage IN ('candidate', 'deployed', 'retired', 'withdrawn')),
    deployed_at timestamptz CHECK ((deployed_at IS NULL) = (stage = 'candidate')),
    task text, status text, plan text, metrics jsonb NOT NULL DEFAULT '{}', options jsonb, recipe text, data_fingerprint text,
    model tuskml_model NOT NULL, PRIMARY KEY (name, group_key, version));
CREATE UNIQUE INDEX models_deployed ON tuskml.models (name, group_key) WHERE stage = 'deployed';
GRANT SELECT ON tuskml.models TO tuskml_user;
GRANT INSERT (name, group_key, version, task, status, plan, metrics, options, recipe, data_fingerprint, model) ON tuskml.models TO tuskml_user;
"""


@pytest.fixture(scope="module", autouse=True)
def trained(pg: psycopg.Connection) -> None:
    pg.execute(
        "CREATE TABLE trained AS SELECT train_model('linear', i, ARRAY[2 * i]) AS model FROM generate_series(0, 9) AS i"
    )
    pg.execute("GRANT SELECT ON trained TO PUBLIC")


@pytest.fixture(autouse=True)
def registry(pg: psycopg.Connection) -> Iterator[None]:
    for role in ("ann", "eve", "crew", "ben"):
        pg.execute(f"CREATE ROLE {role} LOGIN; GRANT tuskml_user TO {role}")
    pg.execute("GRANT crew TO ben")
    pg.execute("SELECT create_registry()")
    yield
    pg.execute("DROP TABLE tuskml.models CASCADE")
    for role in ("ann", "eve", "crew", "ben"):
        pg.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def one(session: psycopg.Connection, query: str) -> object:
    return session.execute(f"SELECT {query}").fetchone()[0]


def registrars(session: psycopg.Connection) -> list[tuple]:
    return session.execute(
        "SELECT name, version, registered_by FROM tuskml.models ORDER BY created"
    ).fetchall()


def test_rows_say_who_registered(connect: Connect) -> None:
    ann, eve = connect(user="ann"), connect(user="eve")
    assert (one(ann, FIRST), one(ann, FIRST)) == (1, 2)
    assert one(eve, FIRST.replace("fare", "tip")) == 1
    assert registrars(eve) == [("fare", 1, "ann"), ("fare", 2, "ann"), ("tip", 1, "eve")]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        eve.execute(
            "INSERT INTO tuskml.models (name, version, registered_by, model) SELECT 'x', 1, 'ann', model FROM tuskml.models LIMIT 1"
        )


def test_nobody_inserts_into_anothers_name(pg, connect: Connect) -> None:
    ann, eve = connect(user="ann"), connect(user="eve")
    assert one(ann, FIRST) == 1
    for group, version in itertools.product(("", "Rome"), (2, 3, 1_000_000_000, 2_147_483_647)):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match=OTHERS):
            eve.execute(INSERT, (group, version))
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match=OTHERS):
        eve.execute(f"SELECT {FIRST}")
    assert one(pg, "deploy('fare')") == 1
    assert one(ann, FIRST) == 2, "it is not blocked"
    assert registrars(pg) == [("fare", 1, "ann"), ("fare", 2, "ann")]


def test_versions_have_a_bound(pg, connect: Connect) -> None:
    ann = connect(user="ann")
    for version in (0, 1_000_000_001, 2_147_483_647):
        with pytest.raises(psycopg.errors.CheckViolation):
            ann.execute(INSERT, ("", version))
        with pytest.raises(
            psycopg.errors.InvalidParameterValue,
            match=f"version {version} is not allowed, expected 1 to 1000000000",
        ):
            one(ann, f"register_model('fare', {MODEL}, as_version => {version})")
    assert one(ann, f"register_model('fare', {MODEL}, as_version => 20261122)") == 20261122
    assert one(ann, FIRST) == 20261123


def test_members_and_those_who_deploy_may_register(pg, connect: Connect) -> None:
    crew, ben, eve = (connect(user=name) for name in ("crew", "ben", "eve"))
    assert one(crew, FIRST) == 1
    assert one(ben, FIRST) == 2
    assert one(pg, FIRST) == 3, "the registry's owner"
    pg.execute("GRANT UPDATE (stage, deployed_at) ON tuskml.models TO eve")
    assert one(eve, FIRST) == 4
    assert registrars(pg) == [
        ("fare", 1, "crew"),
        ("fare", 2, "ben"),
        ("fare", 3, "postgres"),
        ("fare", 4, "eve"),
    ]


def test_two_who_come_first_at_once(pg, connect: Connect) -> None:
    """The second waits for the first, and finds the name taken."""
    ann, eve = connect(user="ann"), connect(user="eve")
    with ann.transaction():
        ann.execute(INSERT, ("", 1))
        eve.execute("SET lock_timeout = '300ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            eve.execute(INSERT, ("Rome", 7))
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match=OTHERS):
        eve.execute(INSERT, ("Rome", 7))


def test_an_old_registry_is_brought_up_to_date(pg, connect: Connect) -> None:
    """As version 0.1 made it, with a row that blocks a name."""
    pg.execute("DROP TABLE tuskml.models CASCADE")
    pg.execute(OLD)
    ann, eve = connect(user="ann"), connect(user="eve")
    eve.execute(INSERT, ("", 2_147_483_647))
    ann.execute("SELECT create_registry()")  # not the owner: nothing happens
    pg.execute("SELECT create_registry()")
    pg.execute("SELECT create_registry()")
    assert registrars(pg) == [("fare", 2_147_483_647, "postgres")]
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match=OTHERS):
        eve.execute(INSERT, ("Rome", 1))
    with pytest.raises(psycopg.Error):
        one(pg, FIRST)
    assert one(pg, "drop_model('fare', 2147483647)") == 1
    assert one(ann, FIRST) == 1
    assert registrars(pg) == [("fare", 1, "ann")]
    assert (
        pg.execute(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'models_version_check'"
        ).fetchall()
        != []
    )


def test_a_dump_keeps_who_registered(pg, connect: Connect) -> None:
    ann = connect(user="ann")
    assert one(ann, FIRST) == 1
    pg.execute("CREATE TEMP TABLE kept AS SELECT * FROM tuskml.models; DELETE FROM tuskml.models")
    pg.execute("INSERT INTO tuskml.models SELECT * FROM kept")
    assert registrars(pg) == [("fare", 1, "ann")]
    assert one(ann, FIRST) == 2


def test_a_registry_of_a_role_that_is_no_superuser(pg, connect: Connect) -> None:
    pg.execute("DROP TABLE tuskml.models CASCADE")
    pg.execute("GRANT CREATE ON SCHEMA tuskml TO ann")
    ann, eve = connect(user="ann"), connect(user="eve")
    ann.execute("SELECT create_registry()")
    assert one(eve, FIRST) == 1
    assert one(ann, FIRST) == 2
    assert registrars(ann) == [("fare", 1, "eve"), ("fare", 2, "ann")]


def test_a_superuser_does_not_run_what_a_registrys_owner_left(pg, connect: Connect) -> None:
    """Bringing it up to date writes to the table, whose triggers would get a superuser's rights."""
    pg.execute("DROP TABLE tuskml.models CASCADE")
    pg.execute("GRANT CREATE ON SCHEMA tuskml TO ann; GRANT CREATE ON SCHEMA public TO ann")
    ann = connect(user="ann")
    ann.execute("SET check_function_bodies = off")
    ann.execute(OLD)
    ann.execute(INSERT, ("", 1))
    ann.execute("CREATE TABLE seen (who text)")
    ann.execute(
        "CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.seen VALUES (current_user); RETURN NEW; END'"
    )
    ann.execute(
        "CREATE TRIGGER trap BEFORE UPDATE ON tuskml.models FOR EACH ROW EXECUTE FUNCTION trap()"
    )
    pg.execute("SELECT create_registry()")
    assert pg.execute("SELECT * FROM seen").fetchall() == []
    ann.execute("SELECT create_registry()")
    assert pg.execute("SELECT DISTINCT who FROM seen").fetchall() == [("ann",)]
    assert registrars(ann) == [("fare", 1, "ann")]
