"""Schedulers that serve apps one after another: Tiresias, SRTF, SRSF and Gandiva.

As the thesis takes them (section 3.6.1), with one change in their favour: all of them keep the
machines they have and pack pieces as well as the others do.
"""

from collections.abc import Callable

from research.themis.pieces import SIZES
from research.themis.simulation.running import Running, Shares, View

Key = Callable[[View, Running], tuple[float, ...]]


def in_order(view: View, key: Key) -> Shares:
    """Each takes what it can use, the smallest key first."""
    free, found = view.free, []
    for app in sorted(view.wanting, key=lambda app: key(view, app)):
        if not free:
            break
        given = min(app.unmet, free)
        found.append((app, given))
        free -= given
    return found


def tiresias(view: View) -> Shares:
    """The least attained service first, in seconds of workers (J. Gu et al., NSDI 2019)."""
    return in_order(view, lambda _, app: (app.spent, app.spec.arrival))


def srsf(view: View) -> Shares:
    """The shortest remaining service first; it is known."""
    return in_order(view, lambda _, app: (app.remaining,))


def srtf(view: View) -> Shares:
    """The shortest remaining time first, with the workers that are free."""
    return in_order(view, lambda view, app: (app.seconds_left(view.free + app.workers),))


def gandiva(view: View) -> Shares:
    """The best placement first, then who came first (W. Xiao et al., OSDI 2018).

    Without its time slices and packing of several jobs on a GPU, like the thesis.
    """

    def key(view: View, app: Running) -> tuple[float, ...]:
        piece = min(app.now_in.most, app.unmet)
        room = next(
            (n for size, n in zip(SIZES[::-1], view.capacity[::-1], strict=True) if size >= piece),
            0,
        )
        return (0.0 if room >= piece else 1 - 1 / app.spec.slowdowns.cluster, app.spec.arrival)

    return in_order(view, key)
