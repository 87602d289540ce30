"""The groups of a training whose rows stay in parts, ranges of rows of a file each."""

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.cluster import units as cutting
from tuskml.cluster.parts.crews import Ask, Crew, Together, asking, leave
from tuskml.cluster.parts.part_rows import (
    TOGETHER,
    WORK,
    forget,
    with_dealing,
    with_message,
)
from tuskml.cluster.parts.placement import has_named_rows
from tuskml.cluster.shards.catalogue import Group
from tuskml.cluster.units import Batch, Units
from tuskml.cluster.worker import as_bytes, cursor
from tuskml.errors import RowsError
from tuskml.groups.execution.choosing import Executor
from tuskml.groups.execution.executor import Unit
from tuskml.groups.execution.leading import Leader, Leaders
from tuskml.groups.parted import train_by_parts
from tuskml.groups.preparation import invalid_models, preparing
from tuskml.groups.selection.parted import AT_ONCE, search_by_parts
from tuskml.kernels.parts import sharded
from tuskml.kernels.parts.message import pack_message
from tuskml.kernels.parts.sharded import preparation_of
from tuskml.kernels.rows.census import PreparationTexts, as_json, sum_counts
from tuskml.kernels.structures import GROUP
from tuskml.learners.models import Models
from tuskml.learners.receiving import ready
from tuskml.learners.registry import learner_of
from tuskml.schedule.placement import evenly, workers_of

COUNT = pack_message({"method": "count"})
"""The message to a part whose columns are counted."""


class Shards:
    """The parts of a group, on the workers that `asks` asks."""

    def __init__(self, asks: Ask, units: Sequence[Unit], n_rows: int) -> None:
        self.asks, self.units, self.n_rows = asks, list(units), n_rows
        self.found: NDArray[np.void] | None = None
        self.counts = np.zeros(0, np.int64)
        self.folds: tuple[int, ...] | None = None
        self.told: PreparationTexts | None = None
        self.remarks: Sequence[Mapping[str, Any]] = ()
        self.crew: sharded.Crew | None = None
        self.workers = 1

    def of(self, folds: tuple[int, ...] | None) -> "Shards":
        """Selects the rows of some folds in the same parts."""
        same = Shards(self.asks, self.units, self.n_rows)
        same.folds, same.told, same.crew = folds, self.told, self.crew
        same.workers = self.workers
        return same

    def together(self, n: int) -> Iterator[AbstractContextManager["Shards"]]:
        """Yields the parts for n members, whose messages travel together until they leave."""
        group = Together(self.asks, n)
        for _ in range(n):
            yield self._member(group)

    @contextmanager
    def _member(self, group: Together) -> Iterator["Shards"]:
        try:
            same = Shards(group.ask, self.units, self.n_rows)
            same.told, same.workers = self.told, self.workers
            yield same
        finally:
            group.leave()

    def ask_one(self, place: int, message: bytes) -> bytes:
        """The answer of the part at an index."""
        return self.asks([self.units[place]], [message])[0]

    def ask_some(self, messages: Mapping[int, bytes]) -> list[bytes]:
        """The answers of the parts at some indices, in the order given."""
        return self.asks([self.units[place] for place in messages], list(messages.values()))

    def ask(self, message: bytes) -> list[bytes]:
        """The answer of each part, in the order of the shards."""
        return self.asks(self.units, [message] * len(self.units))

    def keep(self, places: Sequence[int]) -> None:
        """Goes on with these parts alone."""
        self.units = [self.units[place] for place in places]

    def deal(self, told: Sequence[bytes]) -> None:
        """Continues with rows that are dealt to folds. told: the dealing of each part."""
        self.units = [
            replace(unit, payload=with_dealing(unit.payload, one))
            for unit, one in zip(self.units, told, strict=True)
        ]


class PartedGroups:
    """Groups that are trained by parts, each led by a thread of this process.

    at_once: how many at a time; together: the groups that workers train together, None: none;
    workers: that there are; batches: by the key of its outcome, each as a batch of its own.
    """

    def __init__(
        self,
        units: Units,
        groups: Sequence[Group],
        at_once: int,
        together: Executor | None = None,
        workers: int = 1,
    ) -> None:
        self.units, self.at_once, self.together = units, at_once, together
        self.run, self.parts = secrets.token_hex(8), units.parts(groups)
        self.workers = workers
        self.batches = {self.key(group): Batch((group,)) for group in groups}

    @property
    def rotates(self) -> bool:
        """Returns whether parts have states of their own."""
        call = self.units.training.call
        return any(learner_of(one.task).by_parts.rotates for one in call.requests)

    @property
    def keys(self) -> list[str]:
        """Returns the keys of all groups."""
        return list(self.batches)

    @contextmanager
    def leaders(self, keys: Sequence[str]) -> Iterator[Leaders]:
        """Returns the leaders of the groups with these keys; rows in this process are freed at
        the end.
        """
        made: dict[str, Leader] = {key: partial(self.lead, key) for key in keys}
        try:
            yield Leaders(made, self.at_once, self.place)
        finally:
            units = [unit for batch in self.batches.values() for unit in self.of(batch)]
            forget({unit.pin for unit in units if unit.pin is not None})
            leave(self.run)

    def place(self, workers: int) -> dict[str, int]:
        """The worker of each part, by its pin (`schedule/placement.py`).

        Where one group is trained at a time, each of them has parts on all workers.
        """
        every = self.units.catalogue.groups
        found: dict[str, int] = {}
        for groups in [every] if self.at_once > 1 else [(group,) for group in every]:
            sizes = np.array([group.rows for group in groups], np.int64)
            shards = evenly(sizes, workers, cutting.BATCH_ROWS if self.at_once > 1 else 0)
            for number, group in enumerate(groups):
                parts = self.parts.get(group, [])
                rows = np.array([part.rows for part in parts], np.int64)
                places = workers_of(shards[shards["group"] == number], rows) if parts else rows
                units = self.of(Batch((group,))) if parts else ()
                found.update(zip((str(one.pin) for one in units), places.tolist(), strict=True))
        return found

    def lead(self, key: str, leaders: Leaders) -> bytes:
        """Trains a group; the same bytes as of a unit (`worker.py`)."""
        try:
            models = self.train_as_leader(key, leaders)
        except RowsError as error:
            first = self.units.training.call.requests[0]
            if first.options.invalid == "error":
                raise
            rows = np.zeros(1, GROUP)
            rows["n_rows"] = self.batches[key].rows
            models = invalid_models(rows, first, [str(error)])
        return self.answer(self.batches[key].groups[0], models)

    def train_as_leader(self, key: str, leaders: Leaders) -> Models | None:
        """The model of a group. Raises RowsError if none can be trained on its rows."""
        batch = self.batches[key]
        parts = self.parts_of(batch, asking(leaders))
        parts.workers = self.workers
        call, every = self.units.training.call, parts.of(None)
        if self.together is not None:
            parts.crew = self.crew(batch, parts, leaders, self.together)
        if call.search is None:
            models = train_by_parts(parts, call.requests[0])
        else:
            models = search_by_parts(parts, call.search, min(AT_ONCE, self.at_once))
        every.ask(b"")  # which frees their rows
        return None if models is None else self.units.training.classes_named(models)

    def crew(self, batch: Batch, parts: Shards, leaders: Leaders, executor: Executor) -> Crew:
        """The workers that train a group together."""
        name = self.units.name_of(batch)
        return Crew(
            leaders.ask,
            lambda: [one.payload for one in parts.units],
            self.run,
            executor.workers,
            batch.rows,
            name,
            executor.notes,
        )

    def parts_of(self, batch: Batch, ask: Ask) -> Shards:
        """The parts of a group. For rows with names, they know the levels in all parts."""
        if not has_named_rows(self.units.training):
            return Shards(ask, list(self.of(batch)), batch.rows)
        call = self.units.training.call
        dealt = None if call.search is None else call.search.dealt
        how = preparing(replace(call.requests[0], held_out=dealt))
        counting = {"counting": as_json(how)}
        census = b""
        for _ in range(2 if how.n_interactions else 1):
            units = list(self.of(batch, counting, census))
            more = ask(units, [COUNT] * len(units))
            census = sum_counts([census, *more])
        parts = Shards(ask, list(self.of(batch, {"preparing": as_json(how)}, census)), batch.rows)
        parts.told = preparation_of(parts) if census else None
        return parts

    def key(self, group: Group) -> str:
        """A digest of all that decides the model."""
        given = [self.units.input_of_part(group, part) for part in self.parts[group]]
        call = self.units.training.call
        how = [call.task, call.options, given]
        how += ["together"] if self.together is not None else []
        text = json.dumps(how, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def of(
        self, batch: Batch, how: Mapping[str, Any] | None = None, census: bytes = b""
    ) -> Iterator[Unit]:
        """The units of a group's parts, to which messages are added; how: rows have names."""
        group = batch.groups[0]
        for part in self.parts[group]:
            given = self.units.input_of_part(group, part)
            text = json.dumps(given, ensure_ascii=False)
            pin = f"{self.run} {hashlib.sha256(text.encode()).hexdigest()}"
            payload = with_message({**given, "pin": pin, **(how or {})}, census)
            yield Unit(
                pin,
                part.rows,
                payload,
                self.units.name_of(batch),
                pin=pin,
                work=WORK,
                together=TOGETHER,
                copied=not self.rotates,
            )

    def answer(self, group: Group, models: Models | None) -> bytes:
        """The key as text, and the model, as an Arrow stream; no model: NULL."""
        database = self.units.database
        names = [f"tusk_key_{place}" for place in range(len(group.key))]
        keys = [
            f"CAST({'NULL' if value is None else database.text(value)} AS VARCHAR) AS {name}"
            for value, name in zip(group.key, names, strict=True)
        ]
        handle = database.text("" if models is None else ready(models))
        none = " FILTER (WHERE false)" if models is None else ""
        model = f"_tusk_take_model({handle}, 0.0, [0.0]){none} AS model"
        with cursor(self.units.settings) as connection:
            return as_bytes(connection.sql(f"SELECT {', '.join([*keys, model])}").to_arrow_table())
