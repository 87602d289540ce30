"""Words that options leave out of documents, in both databases: rare ones, those beyond the most
frequent, and stop words.
"""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))

from payloads import read
from topic_rows import documents, error_of

DOCUMENTS = [[word for word in one if word] for one in documents() if one]
IN_HOW_MANY = Counter(word for one in DOCUMENTS for word in set(one))
TIMES = Counter(word for one in DOCUMENTS for word in one)
RANKED = sorted(IN_HOW_MANY, key=lambda word: (-IN_HOW_MANY[word], word.encode()))
LEAST = sorted(IN_HOW_MANY.values())[4]
CASES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "rare": ({"min_count": LEAST}, {w for w, n in IN_HOW_MANY.items() if n >= LEAST}),
    "most": ({"max_categories": 5}, set(RANKED[:5])),
    "stop": ({"stop_words": ["apple", "saw", "zzz"]}, set(RANKED) - {"apple", "saw"}),
    "all": (
        {"stop_words": RANKED[:3], "max_categories": 4, "min_count": 2},
        set(RANKED[3:7]),
    ),
}


def call(**options: Any) -> str:
    given = json.dumps({"topics": 2, "max_iter": 5} | options, ensure_ascii=False)
    words = "t" if "rows" not in options else options.pop("rows")
    return f"train_model('lda', NULL, {words}, '{given}')"


@pytest.fixture
def stripped(ask: Any) -> Any:
    """The same documents without the empty word, which `documents` has."""
    if ask.db == "duck":
        ask("UPDATE docs SET t = list_filter(t, lambda w: w <> '')")
    else:
        ask("UPDATE docs SET t = array_remove(t, '') RETURNING i")
    return ask


@pytest.mark.parametrize("algorithm", ["gibbs", "online_vb"])
@pytest.mark.parametrize("case", CASES)
def test_the_words_that_stay_keep_their_tokens(stripped: Any, case: str, algorithm: str) -> None:
    options, stay = CASES[case]
    ((payload, text),) = stripped(
        f"SELECT (m).payload, (m).options FROM (SELECT {call(algorithm=algorithm, **options)} AS m FROM docs) AS f"
    )
    topics = read(payload)
    total = dict(zip(topics.words, topics.counts.sum(axis=1), strict=True))
    kept = {word for word, n in total.items() if n > 0}
    assert kept == stay
    for word in stay:
        assert total[word] == pytest.approx(TIMES[word], rel=1e-5 if algorithm == "gibbs" else 0.9)
    assert options.items() <= json.loads(text).items()


def test_a_word_that_was_left_out_is_unknown(stripped: Any) -> None:
    array = "['{}']" if stripped.db == "duck" else "ARRAY['{}']"
    model = f"(SELECT {call(stop_words=['apple'])} AS m FROM docs) AS f"
    found = stripped(
        f"SELECT predict_topics(m, {array.format('apple')}), predict_topics(m, {array.format('saw')}) IS NULL FROM {model}"
    )
    assert found == [(None, False)]


def test_groups_count_documents_of_their_own(stripped: Any) -> None:
    for g in range(3):
        mine = Counter(
            word
            for i, one in enumerate(documents())
            if one and i % 3 == g
            for word in {w for w in one if w}
        )
        ((payload,),) = stripped(
            f"SELECT (m).payload FROM (SELECT g, {call(min_count=9)} AS m FROM docs GROUP BY g) AS f WHERE g = {g}"
        )
        topics = read(payload)
        kept = {w for w, n in zip(topics.words, topics.counts.sum(axis=1), strict=True) if n > 0}
        assert kept == {word for word, n in mine.items() if n >= 9}


def test_nothing_may_stay(stripped: Any) -> None:
    ((status, words),) = stripped(
        f"SELECT (m).status, (SELECT count(*) FROM model_topics(m)) FROM (SELECT {call(min_count=1000)} AS m FROM docs) AS f"
    )
    assert (status, words) == ("no words", 0)


def test_ids_have_no_words_to_leave_out(ask: Any) -> None:
    rows = "sparse(ARRAY[1, 2], ARRAY[1.0, 2.0])"
    sentence = error_of(
        ask,
        f"""SELECT train_model('lda', NULL, {rows}, '{{"stop_words": ["a"]}}') FROM docs""",
    )
    assert "option 'stop_words'" in sentence
