"""Which options have listed columns become a row with names."""

import re
from pathlib import Path

import pytest

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
