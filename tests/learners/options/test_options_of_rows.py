"""Which options have listed columns become a row with names, and which depart from defaults."""

import json
import re
from pathlib import Path

import pytest

from tuskml.learners.linear.options import OF_STORES, OPTIONS
from tuskml.learners.options.by_name import OF_ROWS, by_name

DIALECTS = Path(__file__).parents[3] / "dbt" / "macros" / "sql" / "dialects.sql"


def test_dbt_knows_the_same_options() -> None:
    (listed,) = re.findall(r"set about_columns = \[(.*?)\]", DIALECTS.read_text(), re.DOTALL)
    names = re.findall(r"'(\w+)'", listed)
    assert names == [option.name for option in OF_ROWS if option.name != "missing"]


@pytest.mark.parametrize(
    ("options", "row"),
    [
        ("{}", False),
        ('{"missing": "skip"}', False),
        ('{"missing": "keep"}', False),
        ('{"missing": "impute"}', True),
        ('{"missing": ["impute", "level"]}', True),
        ('{"min_count": 2}', True),
        ('{"min_count": [2, 5]}', True),
        ('{"dates": "days"}', True),
        ('{"fold_by": "g"}', True),
        ('{"l2": 1, "feature_names": ["a"]}', False),
        ("no options", False),
    ],
)
def test_options_that_need_names(options: str, row: bool) -> None:
    assert by_name(options).row == row


@pytest.mark.parametrize(
    ("options", "departs"),
    [
        ({}, False),
        ({"method": "routes", "layout": "affinity", "sharing": "cache", "resume": False}, False),
        ({"partition": 0}, True),
        ({"method": "kv"}, True),
        ({"sharing": "push", "partition": 1000}, True),
    ],
)
def test_defaults_that_are_given_change_no_layout(
    options: dict[str, object], departs: bool
) -> None:
    parsed = OPTIONS.parse(json.dumps({"store": "s", **options}), "logistic")
    assert parsed.departs(*OF_STORES) == departs
