"""Online variational Bayes by SQL: the same bytes in both databases, and what models answer."""

from typing import Any

import duckdb
import psycopg
import pytest
from topic_rows import OPTIONS, documents, error_of, fill

ONLINE = OPTIONS[:-1].replace('"max_iter": 60', '"max_iter": 12') + (
    ', "algorithm": "online_vb", "batch_size": 16}'
)
MODEL = f"SELECT train_model('lda', NULL, t, '{ONLINE}') AS m FROM docs"


def test_topics_are_found(ask: Any) -> None:
    ((plan, status, iterations, loss, options),) = ask(
        f"SELECT (m).plan, (m).status, (m).iterations, (m).loss, (m).options FROM ({MODEL}) AS f"
    )
    assert (status, iterations) == ("ok", 12)
    assert plan.startswith("online variational Bayes, 2 topics, 12 passes, batches of 16 doc")
    assert loss > 0
    assert '"algorithm":"online_vb"' in str(options).replace(": ", ":")
    best = ask(f"SELECT topic, word FROM model_topics(({MODEL}), 4)")
    found = {frozenset(word for k, word in best if k == topic) for topic in (1, 2)}
    tools = [one for one in found if one & {"axe", "drill", "hammer", "saw"}]
    assert len(tools) == 1
    assert not tools[0] & {"apple", "banana", "cherry", "mango"}
    answers = ask(f"SELECT predict_topics(m, t), i FROM docs, ({MODEL}) AS f ORDER BY i")
    assert answers[5][0] is None
    assert all(sum(theta) == pytest.approx(1) for theta, _ in answers if theta)
    ((perplexity,),) = ask(f"SELECT perplexity(m, t) FROM docs, ({MODEL}) AS f")
    assert 5 < perplexity < 14


def test_both_databases_train_the_same_bytes(
    con: duckdb.DuckDBPyConnection, post: psycopg.Connection
) -> None:
    docs = documents(500)
    fill("duck", con, docs)
    fill("post", post, docs)
    by_group = MODEL.replace("FROM docs", "FROM docs GROUP BY g ORDER BY g")
    for query in (
        f"SELECT (m).payload, (m).loss FROM ({MODEL}) AS f",
        f"SELECT (m).payload, (m).loss FROM ({by_group}) AS f",
    ):
        assert post.execute(query).fetchall() == con.execute(query).fetchall()


@pytest.mark.parametrize(("options", "told"), [
    ('{"algorithm": "vb"}', """'algorithm' is "vb", expected 'gibbs' or 'online_vb'"""),
    ('{"batch_size": 5}',
     "'batch_size' is for option 'algorithm': 'online_vb', which is 'gibbs': "
     "expected both, or neither"),
    ('{"algorithm": "online_vb", "optimize_interval": 5}',
     "'optimize_interval' is for option 'algorithm': 'gibbs', which is 'online_vb': "
     "expected both, or neither"),
])  # fmt: skip
def test_options_of_the_other_algorithm_are_refused(ask: Any, options: str, told: str) -> None:
    found = error_of(ask, f"SELECT train_model('lda', NULL, t, '{options}') FROM docs")
    assert found == f"train_model: option {told}"


def test_an_explanation_names_the_algorithm(ask: Any) -> None:
    ((text,),) = ask(f"SELECT explain_training('lda', NULL, t, '{ONLINE}') FROM docs")
    assert "online variational Bayes, 2 topics, 12 passes" in text
    assert "bound of -log p(words) of a token" in text
