"""Models of every task with forged bytes and fields, and every call that takes a model.

Statements are the same text in both databases, except for rows with names and the replacement of a
field. With any forged model, a statement ends in rows or in one sentence.
"""

import json
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Execute = Callable[[str], list[Any]]
HEAD = struct.Struct("<4sHBBBBHIIIQd3d")
NUMBERED = "SELECT i, i % 7 AS a, i % 5 AS b, (i * i) % 11 AS c"
SOURCE = f"({NUMBERED} FROM generate_series(1, 80) AS t(i)) AS s"
LIST = "ARRAY[a, b, c]"
SPARSE = "sparse(ARRAY[1, 2 + a], ARRAY[1.0, b])"
PAIR = "ARRAY[a, b]"
WORDS = "ARRAY['w' || a, 'v' || b, 'w' || c]"
COLUMNS = (
    "a AS a, 'k' || b AS k, DATE '2024-01-01' + CAST(i AS integer) AS d, 'some words ' || c AS t"
)
NAMED = {
    "duck": "struct_pack(a := a, k := 'k' || b, d := DATE '2024-01-01' + CAST(i AS integer), "
    "t := 'some words ' || c)",
    "post": f"(SELECT r FROM (SELECT {COLUMNS}) AS r)",
}
MODELS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "linear": ("linear", "a + b", LIST, {"fit": True}),
    "sure": ("linear", "a + b * b", LIST, {"intervals": "covariance"}),
    "named": ("linear", "a + c", "NAMED", {"text": ["t"], "missing": "level"}),
    "sure by name": ("linear", "a + c * b", "NAMED", {"intervals": "covariance"}),
    "classes": ("logistic", "b", LIST, {"l2": 0.1}),
    "texts": ("logistic", "'c' || b", "NAMED", {"l2": 0.1, "dates": "cycles"}),
    "sparse": ("logistic", "c > 4", SPARSE, {"l2": 0.1}),
    "searched": ("linear", "a + c", LIST, {"l2": [0.1, 1], "folds": 2}),
    "levels": ("ordinal", "b", LIST, {"l2": 0.1}),
    "two levels": ("ordinal", "c > 4", "NAMED", {"l2": 0.1, "link": "cloglog"}),
    "ratings": ("matrix_factorization", "c", PAIR, {"rank": 2, "max_iter": 3}),
    "boosted": ("gbdt", "a + c", LIST, {"trees": 3, "min_child_rows": 5}),
    "boosted levels": ("gbdt", "'c' || b", "NAMED", {"trees": 2, "min_child_rows": 5}),
    "forest": ("random_forest", "b", LIST, {"trees": 2, "objective": "gini"}),
    "net": ("mlp", "a + c", LIST, {"layers": [4, 3], "max_iter": 2}),
    "named net": ("mlp", "'c' || b", "NAMED", {"layers": [3], "max_iter": 2}),
    "machine": ("fm", "a + c", SPARSE, {"rank": 2, "max_iter": 2}),
    "path": ("lasso", "a + c", LIST, {"path": {"length": 5, "folds": 2}}),
    "topics": ("lda", "NULL", WORDS, {"topics": 2, "max_iter": 3}),
    "numbered topics": ("lda", "NULL", SPARSE, {"topics": 2, "max_iter": 3}),
}
"""The task, label, features and options of models, by name."""
ROWS = {
    "list": ("ARRAY[1.0, 2.0, 3.0]", "ARRAY[1.0]"),
    "sparse": ("sparse(ARRAY[1, 3], ARRAY[1.0, 2.0])", "sparse(ARRAY[2000000000], ARRAY[1.0])"),
    "pair": ("ARRAY[1.0, 2.0]",),
    "words": ("ARRAY['w1', 'v2']",),
    "named": (),
}
SCORES = (
    "predict({m}, {x})", "predict_proba({m}, {x})", "decision({m}, {x})",
    "predict_class({m}, {x})", "predict_probas({m}, {x})", "predict_proba({m}, {x}, 'c1')",
    "predict_interval({m}, {x}, 0.9)", "marginal_effects({m}, {x})", "drift({m}, {x})",
    "predict_topics({m}, {x})", "perplexity({m}, {x})", "coherence({m}, {x}, 'u_mass', 5)",
)  # fmt: skip
"""Calls that score a row, or sum scores."""
PLAIN = ("with_payload({m})", "model_payload({m})", "model_fingerprint({m})")
TABLES = (
    "model_summary({m})", "model_fit({m})", "model_terms({m})", "model_trials({m})",
    "model_card({m})", "model_path({m})", "feature_importance({m})", "tree_dump({m})",
    "model_topics({m}, 5)", "model_covariance({m})",
    "recommend_by_items({m}, [1], [2.0], 5)",
    "recommend({m}, 1, 5)", "similar_items({m}, 1, 5)", "recommend({m}, 1, 1000000000000)",
)  # fmt: skip
OF_ROWS = ("explain_prediction({m}, {x})",)
WARM = "train_model('{task}', {label}, {features}, '{{\"warm_start\": ' || {m} || '}}')"
SIZES = (
    0, 1, 2, 3, 255, 65_535, 65_536, 2**24, 2**24 + 1, 2**27, 2**31 - 1, 2**31, 2**32 - 1, 2**32,
    2**40, 2**61, 2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip
NUMBERS = (
    float("nan"), float("inf"), -float("inf"), 1e300, -1.0, 0.0, 0.5, 2.0**31, 2.0**53, 1e15, 1e9,
    65_536.0, 16_777_217.0,
)  # fmt: skip
TEXTS = (
    "", "{}", "[]", "null", "0", '"x"', "{", "[" * 500, '{"trials": [{}]}', '{"path": [1, null]}',
    '{"columns": []}', '{"l2": {"a": [1]}}', "\ufffd" * 50, "linear", "gbdt", "lda", "mlp", "fm",
    "matrix_factorization", "lasso", "store@1", "../../etc/passwd",
)  # fmt: skip
OF_TEXT = ("task", "preparation", "note", "status", "plan", "options", "store", "trials")
OF_NUMBERS = ("coef", "std_err", "classes", "history", "spread")
OF_TEXTS = ("features", "class_names")
OF_COUNTS = ("n_rows", "n_skipped", "n_features", "iterations")
OF_NUMBER = ("intercept", "loss", "seconds")


def crc32c(data: bytes, table: list[int] = []) -> int:  # noqa: B006, made once
    """The sum that payloads have."""
    if not table:
        for byte in range(256):
            crc = byte
            for _ in range(8):
                crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
            table.append(crc)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def signed(payload: bytes) -> bytes:
    """The bytes with the sum that fits them."""
    if len(payload) < 16:
        return payload
    return payload[:12] + struct.pack("<I", crc32c(payload[:12] + payload[16:])) + payload[16:]


@dataclass(frozen=True)
class Forged:
    """A model of a database with other bytes or another field. number: by which it is drawn again;
    kind: name in MODELS; sql: the model as an expression over the table `sound`."""

    number: int
    kind: str
    sql: str


class Forger:
    """Trains the models in a database, and draws forged ones by number."""

    def __init__(self, execute: Execute, database: str) -> None:
        self.execute, self.database = execute, database
        columns = ", ".join(
            f"train_model('{task}', {label}, {self.features(x)}, '{json.dumps(options)}')"
            f' AS "{name}"'
            for name, (task, label, x, options) in MODELS.items()
        )
        execute(f"CREATE TABLE sound AS SELECT {columns} FROM {SOURCE}")
        self.payloads = {name: self.payload_of(name) for name in MODELS}

    def features(self, text: str) -> str:
        """Features as this database writes them."""
        return NAMED[self.database] if text == "NAMED" else text

    def payload_of(self, name: str) -> bytes:
        (row,) = self.execute(f'SELECT ("{name}").payload FROM sound')
        return bytes(row[0])

    def forged(self, number: int) -> Forged:
        """The model of a number, the same in each run."""
        chosen = random.Random(number)
        kind = chosen.choice(list(MODELS))
        given = {}
        if chosen.random() < 0.7:
            given["payload"] = self.bytes_of(self.changed(self.payloads[kind], chosen))
        while not given or chosen.random() < 0.2:
            given.update([self.field(chosen)])
        return Forged(number, kind, self.with_fields(f'"{kind}"', given))

    def changed(self, payload: bytes, chosen: random.Random) -> bytes:
        """Bytes that differ in some bits, sizes or numbers, or that are cut or spliced."""
        own = bytearray(payload)
        for _ in range(chosen.choice((1, 1, 1, 2, 4))):
            at = self.place_in(own, chosen)
            way = chosen.random()
            if way < 0.3:
                own[at] ^= 1 << chosen.randrange(8)
            elif way < 0.65:
                width = chosen.choice((1, 2, 4, 8))
                size = chosen.choice(SIZES) % 256**width
                own[at : at + width] = size.to_bytes(width, "little")
            elif way < 0.9:
                own[at // 8 * 8 : at // 8 * 8 + 8] = struct.pack("<d", chosen.choice(NUMBERS))
            elif way < 0.95:
                del own[at : at + chosen.randint(1, 16)]
            else:
                other = self.payloads[chosen.choice(list(MODELS))]
                own[at:] = other[min(at, len(other)) :]
        return signed(bytes(own)) if chosen.random() < 0.97 else bytes(own)

    @staticmethod
    def place_in(payload: bytearray, chosen: random.Random) -> int:
        """An index in the head, at a boundary after it, or anywhere."""
        way, n = chosen.random(), max(len(payload) - 1, 0)
        if way < 0.25:
            return min(chosen.randrange(4, HEAD.size), n)
        if way < 0.5:
            return min(chosen.randrange(HEAD.size, HEAD.size + 96), n)
        return chosen.randrange(n + 1)

    def field(self, chosen: random.Random) -> tuple[str, str]:
        """The name of a field, and another value in SQL."""
        name = chosen.choice((*OF_TEXT, *OF_NUMBERS, *OF_TEXTS, *OF_COUNTS, *OF_NUMBER, "payload"))
        if name == "payload":
            return name, self.bytes_of(chosen.randbytes(chosen.randrange(200)))
        if name in OF_TEXT:
            return name, quoted(chosen.choice(TEXTS))
        if name in OF_COUNTS:
            return name, f"CAST({min(chosen.choice((-1, *SIZES)), 2**63 - 1)} AS bigint)"
        if name in OF_NUMBER:
            return name, f"CAST('{chosen.choice(NUMBERS)}' AS double precision)"
        if name in OF_TEXTS:
            some = [quoted(chosen.choice(TEXTS)) for _ in range(chosen.choice((0, 1, 3, 5)))]
            return name, f"CAST(ARRAY[{', '.join(some)}] AS text[])"
        numbers = [f"'{chosen.choice(NUMBERS)}'" for _ in range(chosen.choice((0, 1, 3, 4, 40)))]
        return name, f"CAST(ARRAY[{', '.join(numbers)}] AS double precision[])"

    def bytes_of(self, payload: bytes) -> str:
        """Bytes in SQL."""
        if self.database == "duck":
            return f"from_hex('{payload.hex()}')"
        return f"decode('{payload.hex()}', 'hex')"

    def with_fields(self, model: str, given: dict[str, str]) -> str:
        """A model with other fields, in SQL."""
        if self.database == "duck":
            listed = ", ".join(f"{name} := {value}" for name, value in given.items())
            return f"struct_update({model}, {listed})"
        listed = ", ".join(f"'{name}', {self.in_json(name, sql)}" for name, sql in given.items())
        return f"jsonb_populate_record({model}, jsonb_build_object({listed}))"

    @staticmethod
    def in_json(name: str, sql: str) -> str:
        """A field's value as an argument of jsonb_build_object."""
        return f"CAST({sql} AS text)" if name in ("payload", *OF_NUMBER) else sql

    def calls(self, one: Forged) -> Iterator[str]:
        """Statements that give a forged model to each function, with rows that fit and others."""
        task, label, features, _ = MODELS[one.kind]
        fitting = self.features(features)
        from_sound = f"FROM {SOURCE}, (SELECT {one.sql} AS m FROM sound) AS f"
        rows = sorted({fitting, *(row for some in ROWS.values() for row in some)})
        chosen = random.Random(one.number)
        for call in SCORES:
            for row in (fitting, chosen.choice(rows)):
                yield f"SELECT {call.format(m='m', x=row)} {from_sound}"
        for call in PLAIN:
            yield f"SELECT {call.format(m='m')} {from_sound} WHERE i = 1"
        one_row = f"(SELECT {one.sql} AS m FROM sound) AS f, LATERAL"
        for call in TABLES:
            yield f"SELECT * FROM {one_row} {call.format(m='m')} AS g LIMIT 1000"
        for row in (fitting, chosen.choice(rows)):
            inner = f"(SELECT * FROM {SOURCE} WHERE i < 3) AS s, {one_row}"
            for call in OF_ROWS:
                yield f"SELECT * FROM {inner} {call.format(m='m', x=row)} AS g LIMIT 1000"
        text = "to_json(f.m)::VARCHAR" if self.database == "duck" else "to_jsonb(f.m)::text"
        start = f"(SELECT {text} FROM one AS f)"
        warm = WARM.format(task=task, label=label, features=fitting, m=start)
        yield f"WITH one AS (SELECT {one.sql} AS m FROM sound) SELECT {warm} FROM {SOURCE}"


def quoted(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"
