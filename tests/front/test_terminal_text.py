"""Names and texts of a database in a terminal, which obeys none of them."""

from tuskml.text.table import table


def test_a_table_has_no_character_that_a_terminal_obeys():
    bad = "a\x1b]0;title\x07\x1b[31m\x9b2J\u202e"
    text = table([bad], [[bad], [{bad: [bad]}], ["two\nlines\tof text"]], width=200)
    assert {c for c in text if not c.isprintable()} <= {"\n"}
    assert r"\x1b[31m" in text
    assert "lines" in text
