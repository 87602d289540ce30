"""Figure 8: one barrier a rotation against one after each step, by the topic model's blocks."""

from collections.abc import Iterator

from research import report
from research.report import Found
from research.smpframe.rotations import makespans


def find(scale: float, off: bool = False) -> Iterator[Found]:
    """Makespans with micro over those with macro synchronisation. off: micro in both places."""
    found = makespans(scale)
    micro = found["a barrier per step, heaviest first"]
    macro = micro if off else found["one barrier, heaviest first"]
    yield Found("micro over macro synchronisation", "1.3", micro / macro, least=1.3)


if __name__ == "__main__":
    report.main(find)
