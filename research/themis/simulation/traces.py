"""Published traces as apps: Philly, Helios and Acme, from the files as they are published.

| trace | file | what is read of a job |
|---|---|---|
| Philly | `cluster_job_log`, JSON | `submitted_time`, `user`, `status`, `attempts` |
| Helios | `cluster_log.csv` | `user`, `gpu_num`, `submit_time`, `duration`, `state` |
| Acme | `trace_seren.csv`, `trace_kalos.csv` | the same, and `type` |

An attempt of Philly has `start_time`, `end_time` and the `gpus` of each host in `detail`. Jobs
without GPUs, and jobs that never ran, are left out. Times are seconds after the first job. A job
was seen on one number of workers, so that is the most that it can use, and its work is the
product. Jobs that one user submits within `together` seconds, with the same number of workers, are
one app.
"""

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from research.themis.simulation.apps import NO_SLOWDOWN, Spec, Stage
from tuskml.schedule.fair.auction import Slowdowns


@dataclass(frozen=True)
class Job:
    """A job of a trace: when it was submitted, in seconds since 1970, and its seconds on GPUs."""

    user: str
    submitted: float
    seconds: float
    workers: int
    state: str = ""
    kind: str = ""


def seconds_of(text: str) -> float:
    """Parses a time such as "2017-10-07 01:12:09" or with a zone, "2023-03-01 00:18:22+08:00"."""
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def read_csv(path: Path) -> Iterator[Job]:
    """Reads a trace of Helios or Acme. ValueError where a column is missing."""
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        asked = ("user", "gpu_num", "submit_time", "duration", "state")
        missing = [name for name in asked if name not in (rows.fieldnames or ())]
        if missing:
            raise ValueError(
                f"{path.name} has no column {missing[0]}, expected those of its trace"
            )
        for row in rows:
            workers, seconds = int(float(row["gpu_num"] or 0)), float(row["duration"] or 0)
            if workers > 0 and seconds > 0:
                submitted = seconds_of(row["submit_time"])
                yield Job(
                    row["user"], submitted, seconds, workers, row["state"], row.get("type", "")
                )


def read_philly(path: Path) -> Iterator[Job]:
    """Reads `cluster_job_log`: the seconds of all attempts, on the workers of the last one."""
    for job in json.loads(path.read_text()):
        ran = [one for one in job["attempts"] if one.get("start_time") and one.get("end_time")]
        seconds = sum(seconds_of(one["end_time"]) - seconds_of(one["start_time"]) for one in ran)
        workers = sum(len(host["gpus"]) for host in ran[-1]["detail"]) if ran else 0
        if workers and seconds > 0:
            yield Job(
                job["user"], seconds_of(job["submitted_time"]), seconds, workers, job["status"]
            )


def jobs_of(path: Path) -> Iterator[Job]:
    """Reads jobs in the format that the file's name implies: JSON is Philly's."""
    return read_csv(path) if path.suffix == ".csv" else read_philly(path)


def apps_of(
    jobs: Iterable[Job], together: float = 60.0, slowdowns: Slowdowns = NO_SLOWDOWN
) -> list[Spec]:
    """Apps by arrival. slowdowns: of all of them, as no trace says how jobs depend on places."""
    ordered = sorted(jobs, key=lambda job: job.submitted)
    open_apps: dict[tuple[str, int], list[Job]] = {}
    groups: list[list[Job]] = []
    for job in ordered:
        key: Any = job.user, job.workers
        group = open_apps.get(key)
        if group is None or job.submitted - group[-1].submitted > together:
            group = open_apps[key] = []
            groups.append(group)
        group.append(job)
    first = ordered[0].submitted if ordered else 0.0
    return [app_of(group, first, slowdowns) for group in groups]


def app_of(jobs: list[Job], first: float, slowdowns: Slowdowns) -> Spec:
    """One app; jobs of other lengths end one after another, so stages have fewer and fewer."""
    lengths = sorted(job.seconds for job in jobs)
    stages, before = [], 0.0
    for place, seconds in enumerate(lengths):
        if seconds > before:
            workers = jobs[0].workers
            stages.append(Stage(len(lengths) - place, (seconds - before) * workers, workers))
            before = seconds
    return Spec(jobs[0].submitted - first, tuple(stages), slowdowns, lengths[-1] / 3)
