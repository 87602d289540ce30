"""The kinds of targets, as goals over the results."""

from __future__ import annotations

from collections.abc import Sequence

from contender import TUSKML, Goal, Results, Summary

NO_LIMIT = float("inf")


def faster_than(
    peers: str | Sequence[str],
    asked: float,
    *,
    of: str = TUSKML,
    alone: bool = False,
    quality: str = "",
    worst: float = NO_LIMIT,
) -> Goal:
    """`of` is `asked` times faster than the fastest of the peers (whose quality is at most
    `worst`).

    `alone` compares the training alone if a contender reports it separately from the load.
    """
    names = [peers] if isinstance(peers, str) else list(peers)
    rivals = names[0] if len(names) == 1 else f"the fastest of {', '.join(names)}"

    def ratio(results: Results) -> float | None:
        good = [
            results[name]
            for name in names
            if name in results and _good_enough(results[name], quality, worst)
        ]
        times = [time for peer in good if (time := _time(peer, alone)) is not None]
        ours = _time(results[of], alone) if of in results else None
        return min(times) / ours if times and ours else None

    what = "training alone, " if alone else ""
    limit = f" with {quality} <= {worst:g}" if quality else ""
    return Goal(f"{what}{of} against {rivals}{limit}", asked, ratio)


def at_most_seconds(asked: float, *, of: str = TUSKML, alone: bool = False) -> Goal:
    """An absolute time."""
    text = f"{'training alone, ' if alone else ''}{of}, seconds"
    return Goal(
        text,
        asked,
        lambda results: _time(results[of], alone) if of in results else None,
        at_least=False,
    )


def quality_no_worse(key: str, peers: Sequence[str], slack: float, *, of: str = TUSKML) -> Goal:
    """The quality figure (smaller is better) is at most `slack` above the best of the peers."""

    def excess(results: Results) -> float | None:
        theirs = [
            value
            for name in peers
            if name in results and (value := _quality(results[name], key)) is not None
        ]
        ours = _quality(results[of], key) if of in results else None
        return ours - min(theirs) if theirs and ours is not None else None

    return Goal(
        f"{key} of {of} above the best of {', '.join(peers)}", slack, excess, at_least=False
    )


def quality_at_most(key: str, asked: float, *, of: str = TUSKML) -> Goal:
    """An absolute bound on a quality figure."""
    return Goal(
        f"{key} of {of}",
        asked,
        lambda results: _quality(results[of], key) if of in results else None,
        at_least=False,
    )


def slowdown_at_most(slow: str, fast: str, asked: float) -> Goal:
    """`slow` takes at most `asked` times as long as `fast`."""

    def ratio(results: Results) -> float | None:
        times = [_time(results[name], False) if name in results else None for name in (slow, fast)]
        return times[0] / times[1] if times[0] and times[1] else None

    return Goal(f"{slow}, times as long as {fast}", asked, ratio, at_least=False)


def extra_per_row(slow: str, fast: str, rows: int, asked: float) -> Goal:
    """`slow` takes at most `asked` microseconds a row longer than `fast`."""

    def extra(results: Results) -> float | None:
        times = [_time(results[name], False) if name in results else None for name in (slow, fast)]
        return (times[0] - times[1]) / rows * 1e6 if times[0] and times[1] else None

    return Goal(f"{slow} over {fast}, microseconds a row", asked, extra, at_least=False)


def memory_at_most(of: str, asked: float, row_bytes: float) -> Goal:
    """The peak memory in units of the rows' bytes."""

    def ratio(results: Results) -> float | None:
        peak = results[of].peak_bytes if of in results else None
        return peak / row_bytes if peak else None

    return Goal(
        f"peak memory of {of} / the rows' bytes ({row_bytes / 1e6:.0f} MB)",
        asked,
        ratio,
        at_least=False,
    )


def _time(summary: Summary, alone: bool) -> float | None:
    return summary.train if alone and summary.train is not None else summary.seconds


def _quality(summary: Summary, key: str) -> float | None:
    value = summary.quality.get(key)
    return value if isinstance(value, (int, float)) else None


def _good_enough(summary: Summary, key: str, worst: float) -> bool:
    value = _quality(summary, key)
    return not key or (value is not None and value <= worst)
