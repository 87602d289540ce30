"""Figure 9: blocks of words in their order and the heaviest first, as topics of `lda` rotate."""

from collections.abc import Iterator

from research import report
from research.report import Found
from research.smpframe.rotations import makespans


def find(scale: float, off: bool = False) -> Iterator[Found]:
    """Makespans of ranges of words over those of the product. off: ranges in both places."""
    found = makespans(scale)
    ranges = found["one barrier, words in order"]
    ours = ranges if off else found["one barrier, heaviest first"]
    yield Found("makespan of words in order over heaviest first", "1.3", ranges / ours, least=1.3)
    plain = ranges if off else found["one barrier, blocks in order"]
    yield Found("of blocks of equal words in any order over it", "", plain / ours)


if __name__ == "__main__":
    report.main(find)
