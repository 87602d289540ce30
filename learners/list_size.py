"""How much memory models as lists take."""

COPIES = 3
"""Of a list of coefficients, ours and the database's, which doubles what it has while it grows."""


def bytes_of_lists(numbers: int) -> int:
    """Of lists of so many doubles, with their copies."""
    return COPIES * 8 * numbers
