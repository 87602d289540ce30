"""Documents in SQL that need care: groups with words of their own, unknown words, other types."""

# ruff: noqa: E501, SQL is read better on one line

import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

sys.path.append(str(Path(__file__).parent))

from payloads import read

OPTIONS = '{"topics": 2, "max_iter": 5, "seed": 3}'


@pytest.fixture
def ask(session: tuple[str, Any]) -> Any:
    name, connection = session

    def asked(sql: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
        return found

    asked.db = name
    return asked


def test_groups_with_other_words_keep_their_own(ask: Any) -> None:
    """Groups that train in one call, with dictionaries of different words and sizes."""
    letter = {"duck": "chr(CAST(97 + g AS INTEGER))", "post": "chr(97 + g)"}[ask.db]
    gather = {"duck": "list", "post": "array_agg"}[ask.db]
    words = f"SELECT g, d, {gather}({letter} || j) AS t FROM (SELECT g, d, j FROM {{}}) AS r WHERE j <= g + d GROUP BY g, d"
    numbers = {
        "duck": "range(5) a(g), range(4) b(d), range(9) c(j)",
        "post": "generate_series(0, 4) AS a(g), generate_series(0, 3) AS b(d), generate_series(0, 8) AS c(j)",
    }[ask.db]
    model = f"train_model('lda', NULL, t, '{OPTIONS}')"
    found = ask(
        f"SELECT g, ({model}).payload FROM ({words.format(numbers)}) AS w GROUP BY g ORDER BY g"
    )
    assert len(found) == 5
    for g, payload in found:
        topics = read(payload)
        times = {f"{chr(97 + g)}{j}": sum(j <= g + d for d in range(4)) for j in range(g + 4)}
        assert dict(zip(topics.words, topics.counts.sum(axis=1), strict=True)) == times


def test_documents_of_unknown_words_count_for_ids_too(ask: Any) -> None:
    """Ids and words have the same u_mass, which depends on how many documents there are."""
    array = "" if ask.db == "duck" else "ARRAY"
    short = {"duck": "measure := 'u_mass', words := 3", "post": "'u_mass', 3"}[ask.db]
    kinds = {
        "words": ["['a', 'b']", "['c', 'a']", "['c', 'c']", "['zzz']"],
        "ids": ["[0, 1]|[1.0, 1.0]", "[2, 0]|[1.0, 1.0]", "[2]|[2.0]", "[9]|[1.0]"],
    }
    found = []
    for docs in kinds.values():
        parts = [", ".join(array + one for one in doc.split("|")) for doc in docs]
        tokens = [f"sparse({doc})" if "|" in docs[0] else doc for doc in parts]
        seen = " UNION ALL ".join(f"SELECT {t} AS t" for t in tokens[:3])
        judged = " UNION ALL ".join(f"SELECT {t} AS t" for t in tokens)
        model = f"SELECT train_model('lda', NULL, t, '{OPTIONS}') AS m FROM ({seen}) AS s"
        found += ask(f"SELECT coherence(m, t, {short}) FROM ({judged}) AS j, ({model}) AS f")
    assert found[0] == (pytest.approx(found[1][0], abs=1e-12),)
    assert found[0][0] < 0


def test_arrays_of_a_type_that_is_not_known_are_refused(post: psycopg.Connection) -> None:
    """pg_stats has columns of type anyarray, whose bytes are no sparse row."""
    post.execute("CREATE TABLE st AS SELECT i % 3 AS k FROM generate_series(1, 100) AS i")
    post.execute("ANALYZE st")
    model = f"SELECT train_model('lda', NULL, sparse(ARRAY[i % 5], ARRAY[1.0]), '{OPTIONS}') AS m FROM generate_series(1, 9) AS i"
    for call in ("predict_topics(m, v)", "perplexity(m, v)", "coherence(m, v, 'u_mass')"):
        stats = "SELECT most_common_vals AS v FROM pg_stats WHERE tablename = 'st'"
        with pytest.raises(psycopg.Error, match="tokens are neither a list of words"):
            post.execute(f"SELECT {call} FROM ({model}) AS f, ({stats}) AS s")
    with pytest.raises(psycopg.Error, match="a part of an aggregate"):
        post.execute(
            f"SELECT tuskml._tuskml_perplexity_add(NULL, m, ARRAY[1]) FROM ({model}) AS f"
        )
