"""Machines for the workers that a scheduler gives, alike for all schedulers.

Apps keep their machines where they can, as a move costs a restart. Jobs that suffer when they are
spread choose first, and move if they were spread; the others fill what remains.
"""

from collections.abc import Sequence

from research.themis.simulation.apps import Stage
from research.themis.simulation.machines import Machines, Room
from research.themis.simulation.running import Running, Shares

GOOD = 0.98
"""Of the speed on one machine, with which a job is not moved."""


def place(shares: Shares, room: Room, machines: Machines) -> None:
    """Gives each app its workers, besides those that it holds."""
    apart = [pair for pair in shares if is_sensitive(pair[0])]
    others = [pair for pair in shares if not is_sensitive(pair[0])]
    left: list[tuple[Running, int]] = []
    for app, n in apart:
        left.append((app, n - (keep(app, n, room) if well_placed(app, machines) else 0)))
    for app, n in sorted(left, key=lambda pair: -min(pair[0].now_in.most, pair[1])):
        room.give(app.held, pieces(app.now_in, n))
    for app, n in others:
        rest = n - keep(app, n, room)
        if rest:
            room.give(app.held, pieces(app.now_in, rest))


def is_sensitive(app: Running) -> bool:
    """Returns whether its speed depends on where its workers are."""
    return app.now_in.most > 1 and app.spec.slowdowns.cluster > app.spec.slowdowns.machine


def well_placed(app: Running, machines: Machines) -> bool:
    """Returns whether it was as fast as on one machine, as far as a machine is large enough."""
    if not app.before or app.now_in.most > max(machines.sizes):
        return bool(app.before)
    best = sum(app.before.values()) / app.spec.slowdowns.machine
    return app.rate >= GOOD * best


def keep(app: Running, n: int, room: Room) -> int:
    """Keeps an app's machines, those with most workers first; returns the number of workers."""
    kept = 0
    for machine, workers in sorted(app.before.items(), key=lambda pair: -pair[1]):
        same = min(workers, n - kept, room.free[machine])
        if same > 0:
            room.take(machine, same)
            app.held[machine] = app.held.get(machine, 0) + same
            kept += same
    return kept


def pieces(stage: Stage, workers: int) -> Sequence[int]:
    """Workers of each job."""
    whole, part = divmod(workers, stage.most)
    return [stage.most] * whole + [part] * (part > 0)
