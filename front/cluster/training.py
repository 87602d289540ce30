"""A training on the workers of a cluster, by group or of one model."""

import dataclasses
import math
import secrets
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import duckdb

from tuskml.api.call import ExecutorChoice, Training
from tuskml.api.collecting import collect_models
from tuskml.api.training import run_training
from tuskml.cluster.estimating import execution, is_balanced
from tuskml.cluster.parts.groups import PartedGroups
from tuskml.cluster.parts.placement import (
    APPROACHES,
    AUTO,
    BY_NAME,
    Placement,
    choose_parted,
    placement_of,
    refuse_chance,
    refuse_schedule,
)
from tuskml.cluster.postgres.answers import in_postgres
from tuskml.cluster.postgres.rows import local_rows
from tuskml.cluster.reading import advice
from tuskml.cluster.resuming import UnitFolder
from tuskml.cluster.shards.catalogue import Catalogue
from tuskml.cluster.shards.readable import Readable, in_files
from tuskml.cluster.units import Batch, Units
from tuskml.cluster.worker import WORK
from tuskml.databases.database import Database
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.postgres import Postgres
from tuskml.databases.results import Into, keep
from tuskml.errors import ClusterError, ClusterWarning, OptionError
from tuskml.groups.execution.choosing import Executor, workers_of
from tuskml.groups.execution.executor import Outcome, Tally
from tuskml.learners.events import Event, tell
from tuskml.model.execution import Execution, Work
from tuskml.model.group_models import Models
from tuskml.model.model import Model

if TYPE_CHECKING:
    import pyarrow as pa

HOPELESS = 3
"""Failed units without one that succeeded, after which the rest is not tried."""


def train_clustered(
    database: Database,
    training: Training,
    where: ExecutorChoice,
    into: Into | None,
    replace: bool,
) -> Model | Models | int:
    """The models of all groups, or the one without groups, or with into their number.

    Raises ClusterError, with the finished groups as its `models`, where some were not trained.
    """
    executor, placed = placement_of(where)
    refuse_stored(training)
    if not training.source.files and where.finished is not None:
        raise OptionError(
            f"finished is given, and source is {training.source.name}, expected Parquet files: "
            "tuskml.split writes them once, and a table's rows are written anew for each training"
        )
    with local_rows(database, training) as (here, copy), in_files(here, copy) as readable:
        if readable is None:
            return run_training(database, training, ExecutorChoice(), into, replace)
        train = partial(train_in_files, readable, where, executor, placed)
        if isinstance(database, Postgres):
            return in_postgres(database, training, train, into, replace)
        return train((into, replace))


def train_in_files(
    readable: Readable,
    where: ExecutorChoice,
    executor: Executor,
    placed: Placement,
    kept: tuple[Into | None, bool] = (None, False),
) -> Model | Models | int:
    """Trains groups of files; kept: into and replace."""
    checked, training = readable.database, readable.training
    done = run_on_workers(readable, where, executor, placed)
    with arrow_view(checked, done.answers) as view:
        query = f"SELECT {', '.join([*readable.keys(), 'model'])} FROM {view}"
        why = done.describe_unfinished()
        if why is not None:
            raise incomplete_error(checked, query, training, done, why)
        into, replace = kept
        if into is not None:
            return keep(checked, into, query, replace)
        models = collect_models(checked.models(query), training)
    told = execution_of(readable, where, executor, done)
    if isinstance(models, Models):
        models.execution = told
    elif told is not None and told.pilot is not None:
        return dataclasses.replace(models, plan=plan_with_execution(models, told))
    return models


def plan_with_execution(model: Model, told: Execution) -> str:
    """The model's plan, which if it is text, and not JSON, includes the time on a cluster."""
    return model.plan if model.plan.startswith("{") else f"{model.plan}\n\n{told}"


def execution_of(
    readable: Readable, where: ExecutorChoice, executor: Executor, done: "WorkerResults"
) -> Execution | None:
    """What ran, with the estimated times if the caller or `auto` needs them; None of no worker,
    as where all groups were finished before.
    """
    checked, training, found = readable.database, readable.training, readable.catalogue
    if not executor.workers:
        return done.estimated
    estimated = done.estimated
    if wants_estimates(training, where) and estimated is None:
        estimated = execution(Units(checked, training, found), executor.workers, executor.remote)
    if estimated is None:
        rows = sum(group.rows for group in found.groups)
        configurations = len(training.call.requests)
        estimated = Execution(executor.workers, len(found.groups), rows, configurations)
    return dataclasses.replace(
        estimated, ran=done.approach, seconds=done.seconds, work=done.work_of(executor.tally)
    )


@dataclass(frozen=True)
class WorkerResults:
    """The results of workers. batches: the groups of each unit by its key; parted: how many groups
    were led; approach: the cost model's name of the placement; estimated: the basis of `auto`'s
    choice.
    """

    outcomes: Sequence[Outcome]
    batches: Mapping[str, Batch]
    parted: int
    approach: str
    seconds: float
    estimated: Execution | None

    def work_of(self, tally: Tally) -> Work:
        """What workers ran."""
        pins = set().union(*tally.pins.values())
        return Work(tally.units, self.parted, len(pins), len(tally.pins), tally.n_bytes)

    @property
    def answers(self) -> list[bytes]:
        """Returns the answers of finished units: Arrow streams of keys as text and models."""
        return [one.answer for one in self.outcomes if one.answer is not None]

    def about(self, failed: Outcome) -> str:
        """Says why a unit failed, and which groups it has."""
        first, *more = self.batches[failed.key].groups
        if not first.key:
            return str(failed.error)
        name = ", ".join("NULL" if one is None else repr(one[:60]) for one in first.key)
        others = f" or one of {len(more):,} more" if more else ""
        return f"{failed.error} (group {name}{others})"

    def describe_unfinished(self) -> str | None:
        """Says how many groups were not trained, and why; None where all were."""
        failed = [self.about(one) for one in self.outcomes if one.answer is None]
        if not failed and len(self.outcomes) == len(self.batches):
            return None
        if all(group.key == () for batch in self.batches.values() for group in batch.groups):
            return f"the model was not trained: {failed[0]}"
        keys = [one.key for one in self.outcomes if one.answer is not None]
        n_groups = sum(len(batch.groups) for batch in self.batches.values())
        n_done = sum(len(self.batches[key].groups) for key in keys)
        return f"{n_groups - n_done:,} of {n_groups:,} groups were not trained: {failed[0]}"


def run_on_workers(
    readable: Readable, where: ExecutorChoice, executor: Executor, placed: Placement
) -> WorkerResults:
    """Trains all groups, with a ClusterWarning for problems that changed no model."""
    checked, training, found = readable.database, readable.training, readable.catalogue
    placed, estimated = choose_placement(checked, training, found, where, placed)
    parts = choose_parted(training, found, placed, where.placement is None)
    placed = parts.placement
    refuse_schedule(training, found, parts)
    units = Units(checked, training, found, parts.groups, placed.apart)
    crews = executor if placed.together else None
    parted = PartedGroups(units, parts.groups, placed.at_once, crews, executor.workers)
    warn(filter(None, (parts.why, advice(checked, units))))
    began = time.monotonic()
    outcomes = list(finish_units(executor, units, parted, UnitFolder(where.finished)))
    batches = {key: batch for key, (_, batch) in units.batches.items()} | parted.batches
    seconds = time.monotonic() - began
    warn(executor.notes)
    return WorkerResults(
        outcomes, batches, len(parted.batches), placed.approach, seconds, estimated
    )


def answers_of(
    database: DuckDB, training: Training, where: ExecutorChoice
) -> "tuple[pa.Table, Execution | None] | None":
    """The keys of all groups as text, in columns tusk_key_0 and so on, and their models as
    Arrow, and with the option explain the estimates; None without rows. Raises ClusterError if
    a group was not trained.
    """
    import pyarrow as pa

    executor, placed = placement_of(where)
    with in_files(database, training) as readable:
        if readable is None:
            return None
        done = run_on_workers(readable, where, executor, placed)
        why = done.describe_unfinished()
        if why is not None:
            raise ClusterError(why)
        table = pa.concat_tables([pa.ipc.open_stream(one).read_all() for one in done.answers])
        wanted = wants_estimates(training, where)
        return table, execution_of(readable, where, executor, done) if wanted else None


def warn(notes: Iterable[str]) -> None:
    """Warns of each once."""
    for note in dict.fromkeys(notes):
        warnings.warn(note, ClusterWarning, stacklevel=6)


def choose_placement(
    database: DuckDB,
    training: Training,
    found: Catalogue,
    where: ExecutorChoice,
    placed: Placement,
) -> tuple[Placement, Execution | None]:
    """The placement, and the estimates of each one if `auto` needs them."""
    if placed.name != AUTO:
        return placed, None
    refuse_chance(training)
    workers = workers_of(where.executor)
    if is_balanced(found.groups, workers) and not wants_estimates(training, where):
        return BY_NAME[APPROACHES["TP"]], None
    remote = where.executor != "threads"
    estimated = execution(Units(database, training, found), workers, remote)
    return BY_NAME[APPROACHES[estimated.chosen]], estimated


def wants_estimates(training: Training, where: ExecutorChoice) -> bool:
    """Returns whether the caller requests the estimates."""
    return where.explain or any(request.options.explain for request in training.call.requests)


def refuse_stored(training: Training) -> None:
    """Raises OptionError if workers cannot train this."""
    for request in training.call.requests:
        if request.options.store is not None:
            raise OptionError(
                f"option 'store' is {request.options.store!r} and executor is given, expected one "
                "of them: a store is a folder of one machine"
            )


def finish_units(
    executor: Executor, units: Units, parted: PartedGroups, kept: UnitFolder
) -> Iterator[Outcome]:
    """Outcomes as they come; they end early where nothing works."""
    failures = successes = 0
    ordinary = [unit for unit, _ in units.batches.values()]
    batches = {key: batch for key, (_, batch) in units.batches.items()} | parted.batches
    wrong = partial(wrong_answer, batches)
    for outcome in kept.outcomes(executor, WORK, ordinary, parted, wrong):
        yield outcome
        batch = batches[outcome.key]
        if outcome.answer is None:
            failures += 1
        else:
            successes += 1
            if executor.remote or outcome.key in parted.batches:
                tell(Event(len(batch.groups), batch.rows, 0, math.nan))
        if failures >= HOPELESS and not successes:
            return


def wrong_answer(batches: Mapping[str, Batch], key: str, answer: bytes) -> str | None:
    """The fault of an answer to the unit of a key; None if it has a model per group."""
    import pyarrow as pa

    expected = len(batches[key].groups)
    try:
        found = pa.ipc.open_stream(answer).read_all().num_rows
    except (pa.ArrowInvalid, OSError) as error:
        return f"a worker's answer cannot be read: {' '.join(str(error).split())}"
    if found == expected:
        return None
    return (
        f"a worker answered with {found:,} models for {expected:,} groups: the files have changed "
        "since the training began, or other files lie at their paths on the worker"
    )


@contextmanager
def arrow_view(database: DuckDB, answers: Sequence[bytes]) -> Iterator[str]:
    """The workers' answers as one relation; without any it has no rows and is not to be read."""
    import pyarrow as pa

    name = f"tusk_answers_{secrets.token_hex(8)}"
    if not answers:
        yield name
        return
    tables = [pa.ipc.open_stream(answer).read_all() for answer in answers]
    database.connection.register(name, pa.concat_tables(tables))
    try:
        yield name
    finally:
        with suppress(duckdb.Error):  # in a transaction that failed, which ends without it
            database.connection.unregister(name)


def incomplete_error(
    database: DuckDB, query: str, training: Training, done: WorkerResults, why: str
) -> ClusterError:
    """The error that names the groups that were not trained, and has the models of the others."""
    error = ClusterError(why + ("; the error's `models` has the others" if done.answers else ""))
    if done.answers:  # so there are groups
        found = collect_models(database.models(query), training)
        assert isinstance(found, Models)
        error.models = found
    return error
