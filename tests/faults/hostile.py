"""Options that nobody would write by accident, for both databases."""

import json
import random

TRAINING = ("train_model", "explain_training")
OFFLINE = ("feature_frequencies", "partition_model")
MEGABYTE = 1 << 20


def texts() -> dict[str, str]:
    """Option texts by what is wrong with them; each is refused."""
    lone, digits = '"\\ud800"', "9" * 5000
    found = {
        "lone surrogate as a name": f"{{{lone}: 1}}",
        "lone surrogate as a value": f'{{"algorithm": {lone}, "top": {lone}}}',
        "lone surrogate as a number": f'{{"l2": {lone}, "top": {lone}}}',
        "lone surrogate in a list": f'{{"class_weight": [{lone}], "top": [{lone}]}}',
        "lone surrogate twice": f"{{{lone}: 1, {lone}: 2}}",
        "low surrogate": '{"\\udc80": 1}',
        "surrogates the wrong way round": '{"\\udc00\\ud800": 1}',
        "5,000 digits": f'{{"max_iter": {digits}, "top": {digits}}}',
        "5,000 digits below 0": f'{{"seed": -{digits}, "top": -{digits}}}',
        "5,000 digits in a list": f'{{"class_weight": [1, {digits}], "top": [{digits}]}}',
        "5,000 digits that are no option": digits,
        "an infinite number": '{"l2": 1e999999, "top": 1e999999}',
        "no number": '{"l2": NaN, "top": NaN}',
        "NUL in a name": '{"l2\\u0000": 1}',
        "NUL in a value": '{"algorithm": "new\\u0000ton", "top": "\\u0000"}',
        "line breaks in a name": '{"a\\nb\\r\\u2028c": 1}',
        "control characters": '{"\\u0001\\u001b[31m": 1}',
        "not a character": '{"\\uffff\\ufdd0": 1}',
        "half an escape": '{"\\ud8": 1}',
        "deep lists": "[" * 100_000,
        "deep lists, closed": "[" * 20_000 + "]" * 20_000,
        "deep objects": '{"a":' * 8_000 + "1" + "}" * 8_000,
        "nothing but a quote": '"',
        "many names": json.dumps({f"name_{i}": i for i in range(3000)}),
    }
    for depth in (5, 50, 200, 480, 900, 950, 980, 990, 995, 1000):
        deep = "[" * depth + "1" + "]" * depth
        found[f"{depth} deep"] = f'{{"l2": {deep}, "top": {deep}}}'
    return found


def large(megabytes: int = 64) -> tuple[str, str]:
    """Texts about as long, in SQL; a model to start from, the longest option, may have 64 MB."""
    return (
        f"""'{{"warm_start": "' || repeat('x', {(megabytes - 1) * MEGABYTE}) || '"}}'""",
        f"""'{{"' || repeat('y', {megabytes * MEGABYTE}) || '": "warm_start"}}'""",
    )


PIECES = (
    *'{}[]",:\\ -1', '"l2"', '"top"', '"algorithm"', '"warm_start"', '{"coef":[', "\\ud800",
    "null",
    "1e400", "true", "\\u0000", '"newton"', "9" * 400, "日", "\\udfff", '"store"', '"\\ud800x"',
)  # fmt: skip


def scrambled(n: int, seed: int) -> list[str]:
    """Texts of pieces of options, most of which are no options."""
    choose = random.Random(seed)
    return [
        '{"l2":' * choose.randrange(2) + "".join(choose.choices(PIECES, k=choose.randint(1, 12)))
        for _ in range(n)
    ]


def is_sentence(text: str) -> bool:
    """Whether it says what is wrong in a line, without Python's part in it."""
    inner = ("internal error", "Traceback", "codec", "Error:", "recursion", "sys.set_int")
    return (
        bool(text)
        and len(text) < 1100
        and text.isprintable()
        and not any(word in text for word in inner)
    )
