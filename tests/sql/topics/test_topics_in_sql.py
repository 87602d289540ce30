"""Topics in both databases: words of any kind, predictions, tables, perplexity and sentences."""

# ruff: noqa: E501, SQL is read better on one line

import math
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parent))

from payloads import read
from topic_rows import FRUIT, MODEL, OPTIONS, TOOLS, documents, error_of, fill


def counted(docs: list[Any]) -> Counter[str]:
    return Counter(word for one in docs if one for word in one if word is not None)


def test_words_and_their_counts_reach_the_model(ask: Any) -> None:
    ((payload, n_rows, n_skipped, n_features, status, coef),) = ask(
        f"SELECT (m).payload, (m).n_rows, (m).n_skipped, (m).n_features, (m).status, (m).coef FROM ({MODEL}) AS f"
    )
    expected = counted(documents())
    topics = read(payload)
    assert (n_rows, n_skipped, status, coef) == (59, 1, "ok", None)
    assert topics.words == sorted(expected, key=str.encode)
    assert n_features == len(expected)
    assert dict(zip(topics.words, topics.counts.sum(axis=1), strict=True)) == expected


def test_ids_and_counts_give_the_same_topics(ask: Any) -> None:
    words = sorted(counted(documents()), key=str.encode)
    listed = ", ".join(f"('{word}', {i})" for i, word in enumerate(words))
    numbered = f"""SELECT i, {{pack}} AS t FROM (
        SELECT i, v.id, count(*) AS n FROM (SELECT i, unnest(t) AS w FROM docs) AS u JOIN (VALUES {listed}) AS v (w, id) ON u.w = v.w GROUP BY i, v.id
        ) AS c GROUP BY i"""
    pack = {"duck": "sparse(list(id), list(n))", "post": "sparse(array_agg(id), array_agg(n))"}
    ids = f"SELECT train_model('lda', NULL, t, '{OPTIONS}') AS m FROM ({numbered.format(pack=pack[ask.db])}) AS s"
    ((of_words,),) = ask(f"SELECT (m).payload FROM ({MODEL}) AS f")
    ((of_ids, loss),) = ask(f"SELECT (m).payload, (m).loss FROM ({ids}) AS f")
    assert (read(of_ids).counts == read(of_words).counts).all()
    assert read(of_ids).words is None
    tokens = "sparse([0, 1], [2, 1])"
    if ask.db == "post":
        tokens = "sparse(ARRAY[0, 1], ARRAY[2, 1])"
    ((theta,),) = ask(f"SELECT predict_topics(m, {tokens}) FROM ({ids}) AS f")
    assert theta == pytest.approx(read(of_ids).theta([0, 0, 1]), abs=1e-3)
    assert all(word.isdigit() for (word,) in ask(f"SELECT word FROM model_topics(({ids}), 3)"))
    assert loss > 0


def test_predictions_are_the_fixed_point_of_their_definition(ask: Any) -> None:
    ((payload,),) = ask(f"SELECT (m).payload FROM ({MODEL}) AS f")
    topics = read(payload)
    found = ask(f"SELECT t, predict_topics(m, t) FROM docs, ({MODEL}) AS f ORDER BY i")
    assert [theta for t, theta in found if t is None] == [None]
    for t, theta in found:
        if t is not None:
            assert theta == pytest.approx(topics.theta(topics.ids(t)), abs=2e-3)
            assert sum(theta) == pytest.approx(1)
    fruit = [theta for t, theta in found if t and set(t) <= set(FRUIT)]
    tools = [theta for t, theta in found if t and set(t) <= set(TOOLS)]
    assert abs(np.mean(fruit, axis=0) - np.mean(tools, axis=0)).max() > 0.5


def test_unknown_words_say_nothing(ask: Any) -> None:
    array = "['zzz', NULL]" if ask.db == "duck" else "ARRAY['zzz', NULL]"
    assert ask(f"SELECT predict_topics(m, {array}) FROM ({MODEL}) AS f") == [(None,)]
    known, alone = (array.replace("'zzz', NULL", some) for some in ("'zzz', 'saw'", "'saw'"))
    ((theta, of_one),) = ask(
        f"SELECT predict_topics(m, {known}), predict_topics(m, {alone}) FROM ({MODEL}) AS f"
    )
    assert theta == of_one


def test_the_words_of_topics_are_a_table(ask: Any) -> None:
    ((payload,),) = ask(f"SELECT (m).payload FROM ({MODEL}) AS f")
    topics = read(payload)
    found = ask(
        f"SELECT topic, rank, word, probability FROM model_topics(({MODEL}), words => 5)"
        if ask.db == "post"
        else f"SELECT topic, rank, word, probability FROM model_topics(({MODEL}), words := 5)"
    )
    expected = []
    for k in range(2):
        order = sorted(range(len(topics.words)), key=lambda w: (-topics.phi[w, k], w))[:5]
        expected += [
            (k + 1, r + 1, topics.words[w], topics.phi[w, k]) for r, w in enumerate(order)
        ]
    assert [one[:3] for one in found] == [one[:3] for one in expected]
    assert [one[3] for one in found] == pytest.approx([one[3] for one in expected])
    everything = ask(f"SELECT sum(probability), count(*) FROM model_topics(({MODEL}), 1000)")
    assert everything == [(pytest.approx(2), 2 * len(topics.words))]


@pytest.mark.sample(1)
def test_perplexity_is_that_of_the_other_half(ask: Any) -> None:
    ((payload,),) = ask(f"SELECT (m).payload FROM ({MODEL}) AS f")
    topics = read(payload)
    phi, logs, tokens = topics.phi, 0.0, 0.0
    for one in documents():
        counts = Counter(topics.ids(one or []))
        given, judged, up = [], [], False
        for word, count in counts.items():
            half = math.ceil(count / 2) if up else count // 2
            up ^= count % 2 == 1
            given += [word] * half
            judged += [word] * (count - half)
        theta = topics.theta(given)
        logs += sum(math.log(phi[word] @ theta) for word in judged)
        tokens += len(judged)
    ((found,),) = ask(f"SELECT perplexity(m, t) FROM docs, ({MODEL}) AS f")
    assert found == pytest.approx(math.exp(-logs / tokens), rel=1e-3)
    assert 2 < found < len(topics.words)
    assert ask(f"SELECT perplexity(m, t) FROM docs, ({MODEL}) AS f WHERE i > 1000") == [(None,)]


@pytest.mark.parametrize("measure", ["c_v", "u_mass"])
def test_coherence_is_gensim_s(ask: Any, session: tuple[str, Any], measure: str) -> None:
    """gensim leaves documents without a topic's word out of the windows of c_v: here are none. It
    forgets a word that leaves a window and is still in it: here none is twice in 110 tokens."""
    pytest.importorskip("gensim")
    from gensim.corpora import Dictionary
    from gensim.models import CoherenceModel

    top = ask(f"SELECT topic, word FROM model_topics(({MODEL}), 5)")
    chosen, words = random.Random(5), sorted({w for _, w in top})
    blocks = [chosen.sample(words, len(words) - 3) for _ in range(12)]
    spread = [w for block in blocks for word in block for w in (word, *["filler"] * 13)]
    last = dict.fromkeys(words, -200)
    for place, word in enumerate(spread):
        if word in last and place - last[word] <= 110:
            spread[place] = "filler"
        elif word in last:
            last[word] = place
    docs = [chosen.sample(words, chosen.randrange(1, 6)) for _ in range(40)] + [spread]
    fill(*session, docs, "judged")
    tops = [[w for topic, w in top if topic == k] for k in (1, 2)]
    dictionary = Dictionary(docs)
    how = {"texts": docs, "processes": 1}
    if measure == "u_mass":
        how = {"corpus": [dictionary.doc2bow(d) for d in docs]}
    reference = CoherenceModel(
        topics=tops, dictionary=dictionary, coherence=measure, topn=5, **how
    )
    short = {"duck": f"measure := '{measure}', words := 5", "post": f"'{measure}', 5"}[ask.db]
    ((found,),) = ask(f"SELECT coherence(m, t, {short}) FROM judged, ({MODEL}) AS f")
    assert len(spread) > 1000
    assert found == pytest.approx(reference.get_coherence(), abs=1e-9)


def test_coherence_by_its_definition(ask: Any) -> None:
    """Windows of every document count, those without a topic's word too."""
    top = ask(f"SELECT topic, word FROM model_topics(({MODEL}), 3)")
    windows = [{w for w in t if w} for t in documents() if t]
    everything = 0.0
    for k in (1, 2):
        words = [w for topic, w in top if topic == k]
        p = np.array(
            [[np.mean([a in w and b in w for w in windows]) for b in words] for a in words]
        )
        alone = np.diag(p)
        v = np.log((p + 1e-12) / np.outer(alone, alone)) / -np.log(p + 1e-12)
        whole = v.sum(axis=0)
        everything += np.mean(
            [one @ whole / np.linalg.norm(one) / np.linalg.norm(whole) for one in v]
        )
    short = {"duck": "words := 3", "post": "'c_v', 3"}[ask.db]
    ((found,),) = ask(f"SELECT coherence(m, t, {short}) FROM docs, ({MODEL}) AS f")
    assert found == pytest.approx(everything / 2)


def test_coherence_refuses(ask: Any) -> None:
    duck = ask.db == "duck"
    wrong = [
        (
            "measure := 'npmi'" if duck else "'npmi'",
            "coherence: measure is 'npmi', expected 'u_mass' or 'c_v'",
        ),
        (
            "words := 1" if duck else "'c_v', 1",
            "coherence: words is 1, expected 2 to 5000 of 2 topics",
        ),
    ]
    for given_arguments, told in wrong:
        assert (
            error_of(ask, f"SELECT coherence(m, t, {given_arguments}) FROM docs, ({MODEL}) AS f")
            == told
        )
    two = f"SELECT g, train_model('lda', NULL, t, '{OPTIONS}') AS m FROM docs GROUP BY g"
    told = error_of(ask, f"SELECT coherence(m, t) FROM docs, ({two}) AS f")
    assert told == "coherence: the rows of a group have different models, expected one"
    ((empty,),) = ask(f"SELECT coherence(m, t) FROM docs, ({MODEL}) AS f WHERE i = 6")
    assert empty is None


def test_each_group_has_words_and_topics_of_its_own(ask: Any) -> None:
    docs = documents()
    models = f"SELECT g, train_model('lda', NULL, t, '{OPTIONS}') AS m FROM docs GROUP BY g"
    for g, payload in ask(f"SELECT g, (m).payload FROM ({models}) AS f"):
        assert read(payload).words == sorted(counted(docs[g::3]), key=str.encode)
    found = ask(
        f"SELECT f.g, perplexity(m, t) FROM docs JOIN ({models}) AS f ON docs.g = f.g GROUP BY f.g ORDER BY 1"
    )
    assert [g for g, _ in found] == [0, 1, 2]
    assert all(2 < value < 14 for _, value in found)


def test_a_model_keeps_its_topics_in_other_hands(ask: Any) -> None:
    same = "m" if ask.db == "duck" else "m::text::tuskml_model"
    found = ask(f"SELECT (with_payload({same})).payload = (m).payload FROM ({MODEL}) AS f")
    assert found == [(True,)]


WORDS = st.lists(
    st.one_of(
        st.none(), st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12)
    ),
    max_size=9,
)


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(WORDS, min_size=1, max_size=8))
def test_any_words_are_counted(
    con: duckdb.DuckDBPyConnection, docs: list[list[str | None]]
) -> None:
    expected = counted(docs)
    con.execute("CREATE OR REPLACE TABLE d (t VARCHAR[])")
    con.executemany("INSERT INTO d VALUES (?)", [(one,) for one in docs])
    ((payload,),) = con.execute(
        """SELECT train_model('lda', NULL, t, '{"topics": 2, "max_iter": 1}').payload FROM d"""
    ).fetchall()
    topics = read(payload)
    assert dict(zip(topics.words, topics.counts.sum(axis=1), strict=True)) == expected
    assert topics.words == sorted(expected, key=str.encode)


def test_threads_and_orders_change_no_bit(con: duckdb.DuckDBPyConnection) -> None:
    """Words are numbered by each thread in another order."""
    con.execute(
        "CREATE TABLE d AS SELECT i, list_transform(range(8), lambda j: 'w' || (hash(i * 9 + j) % 500)) AS t FROM range(6000) r(i)"
    )
    payloads = set()
    for threads in (1, 4):
        con.execute(f"SET threads = {threads}")
        for order in ("", "ORDER BY hash(i)"):
            model = """train_model('lda', NULL, t, '{"topics": 3, "max_iter": 5}')"""
            payloads.update(
                con.execute(f"SELECT {model}.payload FROM (SELECT * FROM d {order})").fetchall()
            )
    assert len(payloads) == 1


def test_both_databases_train_the_same_bytes(
    con: duckdb.DuckDBPyConnection, post: psycopg.Connection
) -> None:
    """And infer them, by parallel workers too."""
    docs = documents(3000)
    fill("duck", con, docs)
    fill("post", post, docs)
    post.execute("CREATE TABLE kept AS SELECT * FROM docs")
    for name in ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size"):
        post.execute(f"SET {name} = 0")
    for query in (
        f"SELECT (m).payload FROM ({MODEL}) AS f",
        f"SELECT predict_topics(m, t) FROM docs, ({MODEL}) AS f ORDER BY i",
    ):
        duck = con.execute(query).fetchall()
        assert post.execute(query).fetchall() == duck
        parallel = query.replace("docs", "kept")
        assert "Partial Aggregate" in str(post.execute(f"EXPLAIN {parallel}").fetchall())
        assert post.execute(parallel).fetchall() == duck
