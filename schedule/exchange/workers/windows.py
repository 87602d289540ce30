"""The sequence of motifs that a worker's links follow, window by window, over changes of plans.

In the window of an iteration are the motifs that its plan starts while the iteration computes:
its own, those of the next one that the plan starts early, and those of the last one that it left.
Where the plan changes, nothing of the old plan is early and nothing of the new one is late, so
each run of iterations under one plan is a whole sequence, as `ordering.sequence` unrolls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tuskml.schedule.exchange import algebra
from tuskml.schedule.exchange.algebra import Beside, Expression, Motif, segment, spline
from tuskml.schedule.exchange.enforcer import Step
from tuskml.schedule.exchange.network import CHOICES, splines_of
from tuskml.schedule.exchange.ordering import legal
from tuskml.schedule.exchange.plan import Dag, Option, Plan

PLAIN = {
    "all_reduce": "scattered",
    "all_to_all": "splined1",
    "all_gather": "circled",
    "broadcast": "branched",
}
"""The patterns of the plain order."""


def motifs(motif: Motif, option: Option, per_host: int) -> list[Expression]:
    """Parts of an operation in a plan's sequence, in the order of its strands."""
    whole: Expression = motif
    if motif.kind == "all_reduce":
        if option.pattern == "hosted":
            whole = algebra.split_by_host(motif, per_host)
        elif option.pattern == "treed":
            whole = algebra.treed(motif, 2, per_host)
        else:
            whole = algebra.scatter(motif)
    parts = _parts(segment(whole, option.segments), option.segments)
    count = splines_of(option.pattern)
    return [part for each in parts for part in _parts(spline(each, count), count)]


def _parts(expression: Expression, count: int) -> tuple[Expression, ...]:
    return expression.parts if count > 1 and isinstance(expression, Beside) else (expression,)


def plain_plan(dag: Dag, link: int = 0) -> Plan:
    """Plan of whole operations in the program's order on one link."""
    some = [dag.operations[place] for place in dag.exchanges]
    options = {one.name: Option(PLAIN[one.kind], 1, (link,)) for one in some}
    order = tuple((one.name, 0, 0) for one in some)
    return Plan(options, order, 0, {one.name: (link,) for one in some})


@dataclass(frozen=True)
class Workers:
    """The program and its participants.

    links: between every two workers; roots: of broadcasts.
    """

    dag: Dag
    count: int
    links: int
    per_host: int = 1
    roots: Mapping[str, int] | None = None

    def parts(self, plan: Plan, name: str) -> list[Expression]:
        """Motifs of an operation under a plan."""
        kind = self.dag.operations[self.dag.at[name]].kind
        root = (self.roots or {}).get(name, 0)
        whole = Motif(kind, tuple(range(self.count)), root=root)  # type: ignore[arg-type]
        return motifs(whole, plan.options[name], self.per_host)

    def fault(self, plan: Plan, usable: Sequence[int]) -> str | None:
        """Returns why a plan cannot be followed here, or None.

        usable: links to all workers.
        """
        names = {self.dag.operations[place].name for place in self.dag.exchanges}
        if set(plan.options) != names or set(plan.channels) != names:
            return f"it has not exactly the exchanges {', '.join(sorted(names))}"
        for name, option in plan.options.items():
            kind = self.dag.operations[self.dag.at[name]].kind
            hosted = option.pattern == "hosted" and self.count % self.per_host
            if option.pattern not in CHOICES[kind] or option.segments < 1 or hosted:
                return f"exchange {name} cannot be {option.pattern} in {option.segments} segments"
            count = len(self.parts(plan, name))
            have = sorted(motif for other, motif, _ in plan.order if other == name)
            if have != list(range(count)) or len(plan.channels[name]) != count:
                return f"exchange {name} has {count} motifs, and the plan names {len(have)}"
            if not set(plan.channels[name]) <= set(usable) & set(range(self.links)):
                return f"exchange {name} uses a link that is not there"
        near = all(-1 <= ahead <= 1 for _, _, ahead in plan.order)
        if not (near and legal(self.dag, plan.order)):
            return "its order contradicts the operations"
        return None

    def window(self, at: int, plan_of: Callable[[int], Plan | None]) -> Iterator[Step]:
        """Steps of an iteration's window.

        plan_of: returns None before the first and after the last iteration.
        """
        now, last, after = plan_of(at), plan_of(at - 1), plan_of(at + 1)
        if last is not None and not _same(last, now):
            yield from self._steps(last, at - 1, -1)
        if now is None:
            return
        if not _same(last, now):
            yield from self._steps(now, at, 1)
        parts_by_name = {name: self.parts(now, name) for name in now.options}
        for name, motif, ahead in now.order:
            if ahead == 0 or _same(now, after if ahead > 0 else last):
                yield self._step(now, parts_by_name[name], name, motif, at + ahead)

    def _steps(self, plan: Plan, iteration: int, ahead: int) -> Iterator[Step]:
        for name, motif, early in plan.order:
            if early == ahead:
                yield self._step(plan, self.parts(plan, name), name, motif, iteration)

    def _step(
        self, plan: Plan, parts: list[Expression], name: str, motif: int, iteration: int
    ) -> Step:
        link = plan.channels[name][motif]
        return Step(name, iteration, motif, len(parts), parts[motif], link)


def _same(one: Plan | None, other: Plan | None) -> bool:
    return one is not None and other is not None and one.version == other.version
