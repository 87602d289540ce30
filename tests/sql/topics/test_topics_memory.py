"""Documents beyond the memory limit of a statement, and what the account counts."""

from dataclasses import replace

import pytest

from tuskml.groups.contract import trainer

ROWS, WORDS_EACH, WORDS = 20_000, 60, 3_000
TOKENS = ROWS * WORDS_EACH
CREATE = f"""
CREATE TABLE docs AS SELECT i, i % 2 AS g,
    [(hash(i * {WORDS_EACH} + j) % (100 + hash(i) % {WORDS - 100}))::INT
     FOR j IN range({WORDS_EACH})] AS ids, [1::FLOAT FOR j IN range({WORDS_EACH})] AS n
FROM range({ROWS}) r(i)
"""
OPTIONS = '{"max_iter": 2, "threads": 2, %s}'
MIB = 1 << 20


@pytest.fixture
def trained(new_con, tmp_path):
    """Trains within a limit: the payload, and what the account held at most and holds now."""
    new_con.execute(CREATE)

    def train(limit, more='"topics": 20, "seed": 1'):
        new_con.execute("SELECT tuskml_set_memory(?, ?)", [limit, str(tmp_path)]).fetchall()
        options = OPTIONS % more
        ((payload,),) = new_con.execute(
            f"SELECT train_model('lda', NULL, sparse(ids, n), '{options}').payload FROM docs"
        ).fetchall()
        ((used,),) = new_con.execute("SELECT tuskml_memory()").fetchall()
        return bytes(payload), used

    return train


def kept(one, **given):
    """`dataclasses.replace`, but rows are read again."""
    return replace(one, **(given | {"last": False} if "last" in given else given))


@pytest.mark.nightly
def test_rows_are_given_back_when_their_tokens_were_read(trained, monkeypatch):
    """Topics and counts lie where rows were, unless these are read again."""
    more = '"topics": 400, "seed": 1'
    _, given_back = trained(1 << 30, more)
    monkeypatch.setattr(trainer, "replace", kept)
    _, used = trained(1 << 30, more)
    topics, counts = 2 * TOKENS, 4 * 400 * WORDS
    assert given_back["spilled"] == used["spilled"] == used["resident"] == 0
    assert given_back["peak"] < used["peak"] - 0.7 * (topics + counts)


def test_words_are_written_in_the_place_of_rows(trained, monkeypatch):
    """So words, like topics, are never there beside the rows, and the model is the same."""
    model, given_back = trained(1 << 30)
    monkeypatch.setattr(trainer, "replace", kept)
    same, used = trained(1 << 30)
    words = topics = -(-2 * TOKENS // (2 * MIB)) * 2 * MIB  # pieces of 2 MiB
    assert model == same
    assert given_back["peak"] < used["peak"] - 0.8 * (words + topics)


@pytest.mark.nightly
def test_what_is_kept_of_the_words_of_a_batch_is_charged(trained):
    """28 bytes for each word of a document, of which fewer than a tenth are repeated."""
    peaks = []
    for batch in (32, ROWS):
        more = f'"algorithm": "online_vb", "topics": 1, "batch_size": {batch}'
        _, used = trained(1 << 30, more)
        peaks.append(used["peak"])
        assert used["resident"] == used["spilled"] == 0
    assert peaks[1] > peaks[0] + 20 * TOKENS


@pytest.mark.parametrize("limit", [MIB, 4 * MIB])
def test_a_fraction_of_the_memory_trains_the_same_model(trained, limit):
    in_memory, used = trained(1 << 30)
    assert used["spilled"] == 0
    spilled, used = trained(limit)
    assert spilled == in_memory
    assert used["resident"] == used["spilled"] == 0


def test_a_window_of_sql_trains_as_a_group_does(trained, new_con):
    call = "train_model('lda', NULL, sparse(ids, n), '%s')" % (OPTIONS % '"topics": 20, "seed": 1')
    grouped = dict(new_con.execute(f"SELECT g, {call}.loss FROM docs GROUP BY g").fetchall())
    windows = f"SELECT DISTINCT g, ({call} OVER (PARTITION BY g)).loss FROM docs"
    assert dict(new_con.execute(windows).fetchall()) == grouped
