"""Trees of small groups against other libraries, all at their defaults.

python scripts/bench/run.py small_groups --half development
python scripts/bench/run.py small_groups --half judged --results
python scripts/bench/run.py small_groups --options '{"min_bin_rows": 3}' --only gbdt

A case is a set of small_group_sets.py in groups of one size. That many rows are drawn from
each group for training, and at most 1,000 others judge. Its loss is the root of the mean squared
error, with classes that of the probabilities, averaged over the groups. Reports the average rank
over the cases, and how many times as large as the best one's a contender's loss is over both
sizes of a set. tuskml trains the groups of a case by one statement. Losses are kept in --data-dir
by contender and case, except tuskml's.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import numpy as np
import result_files
from contender import TUSKML
from harness import DEFAULT_DATA_DIR
from small_group_sets import Floats, Rows, halves, rows_of

import tuskml

MOST_HELD = 1000
Groups = list[tuple[np.ndarray, np.ndarray]]
"""The rows that train each group, and those that judge it."""
Scores = list[Floats]
"""For each group the predictions (n,), or the probabilities of all classes (n, K)."""


def groups_of(rows: Rows, size: int) -> Groups:
    """The groups of a case: the smaller, the more."""
    n = 8 if size <= 120 else 4 if size <= 600 else 2
    drawn = []
    for seed in range(n):
        order = np.random.default_rng([size, seed]).permutation(len(rows.y))
        drawn.append((order[:size], order[size : size + MOST_HELD]))
    return drawn


def loss_of(rows: Rows, groups: Groups, scores: Scores) -> float:
    """The mean loss of the groups."""
    losses = []
    for (_, held), score in zip(groups, scores, strict=True):
        y = rows.y[held]
        target = np.eye(score.shape[1])[y.astype(int)] if rows.classes else y
        squares = np.square(score - target)
        losses.append(np.sqrt(np.mean(squares.sum(axis=1) if rows.classes else squares)))
    return float(np.mean(losses))


def by_tuskml(task: str, options: dict[str, Any]) -> Callable[[Rows, Groups], Scores]:
    """Scores of a task of tuskml."""

    def scores(rows: Rows, groups: Groups) -> Scores:
        objective = "squared" if not rows.classes else "gini" if "forest" in task else "logistic"
        chosen = json.dumps({"objective": objective} | options)
        train = np.concatenate([one[0] for one in groups])
        held = np.concatenate([one[1] for one in groups])
        of_train = np.repeat(np.arange(len(groups)), [len(one[0]) for one in groups])
        of_held = np.repeat(np.arange(len(groups)), [len(one[1]) for one in groups])
        how = "predict_probas" if rows.classes else "predict"
        with tuskml.connect(threads=1) as con:
            load(con, "t", of_train, rows, train)
            load(con, "h", of_held, rows, held)
            con.execute(
                f"CREATE TABLE m AS SELECT g, train_model('{task}', y, x, '{chosen}') AS m "
                "FROM t GROUP BY g"
            )
            found = con.execute(
                f"SELECT {how}(m, x) FROM h JOIN m USING (g) ORDER BY h.i"
            ).fetchall()
        return np.split(table_of_scores(rows, found), np.flatnonzero(np.diff(of_held)) + 1)

    return scores


def table_of_scores(rows: Rows, found: list[tuple[Any, ...]]) -> Floats:
    """The predictions (n,) that a query returned, or the probabilities of all classes (n, K)."""
    if not rows.classes:
        return np.array(found, np.float64)[:, 0]
    table = np.zeros((len(found), int(rows.y.max()) + 1))
    for row, (shares,) in enumerate(found):
        for level, share in shares.items():
            table[row, int(float(level))] = share
    return table


def load(con: Any, name: str, of: np.ndarray, rows: Rows, which: np.ndarray) -> None:
    """Makes a table of rows with their groups and order."""
    import pyarrow as pa

    x = rows.x[which]
    lists = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel(), from_pandas=True), x.shape[1])
    table = pa.table({"g": of, "x": lists, "y": rows.y[which], "i": np.arange(len(of))})
    con.register(f"{name}_given", table)
    con.execute(f"CREATE TABLE {name} AS SELECT g, x::DOUBLE[] AS x, y, i FROM {name}_given")


def by_estimators(classifier: Any, regressor: Any) -> Callable[[Rows, Groups], Scores]:
    """Scores of estimators like scikit-learn's, one for each group."""

    def scores(rows: Rows, groups: Groups) -> Scores:
        out = []
        for train, held in groups:
            x, y = rows.x[train], rows.y[train]
            if not rows.classes or len(set(y)) == 1:
                score = (
                    np.full(len(held), y[0])
                    if len(set(y)) == 1
                    else np.asarray(regressor().fit(x, y).predict(rows.x[held])).ravel()
                )
                if rows.classes:
                    score = np.eye(int(rows.y.max()) + 1)[score.astype(int)]
            else:
                found, codes = np.unique(y, return_inverse=True)
                score = np.zeros((len(held), int(rows.y.max()) + 1))
                fitted = classifier().fit(x, codes)
                score[:, found.astype(int)] = fitted.predict_proba(rows.x[held])
            out.append(score)
        return out

    return scores


def peers() -> dict[str, Callable[[Rows, Groups], Scores]]:
    """The other libraries, those that are installed."""
    import lightgbm
    from sklearn import ensemble

    one = {"n_jobs": 1}
    known = {
        "LightGBM": by_estimators(
            lambda: lightgbm.LGBMClassifier(verbose=-1, **one),
            lambda: lightgbm.LGBMRegressor(verbose=-1, **one),
        ),
        "scikit-learn forest": by_estimators(
            lambda: ensemble.RandomForestClassifier(random_state=0, **one),
            lambda: ensemble.RandomForestRegressor(random_state=0, **one),
        ),
        "scikit-learn histograms": by_estimators(
            lambda: ensemble.HistGradientBoostingClassifier(random_state=0),
            lambda: ensemble.HistGradientBoostingRegressor(random_state=0),
        ),
    }
    try:
        import xgboost

        known["XGBoost"] = by_estimators(
            lambda: xgboost.XGBClassifier(**one), lambda: xgboost.XGBRegressor(**one)
        )
    except ImportError:
        pass
    try:
        import catboost

        few = {"thread_count": 1, "verbose": False, "allow_writing_files": False}
        known["CatBoost"] = by_estimators(
            lambda: catboost.CatBoostClassifier(**few),
            lambda: catboost.CatBoostRegressor(**few),
        )
    except ImportError:
        pass
    return known


Cases = dict[str, dict[str, float]]
"""Losses by contender and case, "set, size"."""


def losses(args: argparse.Namespace) -> Cases:
    """Trains and judges all chosen contenders."""
    folder = args.data_dir / "small_groups"
    folder.mkdir(parents=True, exist_ok=True)
    kept_in = folder / "peers.json"
    kept: Cases = json.loads(kept_in.read_text()) if kept_in.exists() else {}
    options = json.loads(args.options)
    ours = {f"{TUSKML} {task}": by_tuskml(task, options) for task in ("gbdt", "random_forest")}
    wanted = args.only.split(",")

    def chosen(name: str) -> bool:
        return any(text in name for text in wanted)

    every = {name: one for name, one in (ours | peers()).items() if chosen(name)}
    out: Cases = {name: {} for name in every}
    for one in halves()[args.half == "judged"]:
        rows = rows_of(one, folder)
        for size in rows.sizes:
            groups, case = groups_of(rows, size), f"{rows.name}, {size}"
            for name, scores in every.items():
                known = kept.setdefault(name, {})
                if args.kept and name not in ours and case not in known:
                    continue
                if name in ours or case not in known:
                    began = time.process_time()
                    known[case] = loss_of(rows, groups, scores(rows, groups))
                    took = time.process_time() - began
                    print(f"{case}: {name} {known[case]:.4g}, {took:.2f} s", flush=True)
                out[name][case] = known[case]
        if not args.kept:
            peers_alone = {name: one for name, one in kept.items() if name not in ours}
            kept_in.write_text(json.dumps(peers_alone))
    return {name: one for name, one in out.items() if one}


def ranks(cases: Cases) -> dict[str, float]:
    """The average rank of each contender."""
    table = np.array([list(one.values()) for one in cases.values()])
    less = (table[None] < table[:, None]).sum(axis=1)
    equal = (table[None] == table[:, None]).sum(axis=1)
    rank = 1 + less + (equal - 1) / 2
    return dict(zip(cases, rank.mean(axis=1).tolist(), strict=True))


def by_set(cases: Cases) -> dict[str, dict[str, float]]:
    """The ratio of each contender's loss to the best one's, for each set: the geometric mean
    over its sizes.
    """
    names = list(cases)
    table = np.log(np.maximum([list(one.values()) for one in cases.values()], 1e-12))
    table -= table.min(axis=0)
    sets = [case.rpartition(", ")[0] for case in cases[names[0]]]
    return {
        name: {
            one: float(np.exp(row[[i for i, s in enumerate(sets) if s == one]].mean()))
            for one in dict.fromkeys(sets)
        }
        for name, row in zip(names, table, strict=True)
    }


COLUMNS = ["", "cases", "average rank", "mean ratio to the best", "worst ratio", "of the set"]


def table_of(cases: Cases) -> list[list[str]]:
    """A row for each contender, by rank, over the cases that all have."""
    common = set.intersection(*(set(one) for one in cases.values()))
    cases = {
        name: {case: one[case] for case in one if case in common} for name, one in cases.items()
    }
    rank, ratios = ranks(cases), by_set(cases)
    rows = []
    for name in sorted(rank, key=rank.__getitem__):
        values = np.array(list(ratios[name].values()))
        worst = list(ratios[name])[int(values.argmax())]
        mean = np.exp(np.log(values).mean())
        numbers = f"{len(common)}", f"{rank[name]:.2f}", f"{mean:.3f}", f"{values.max():.3g}"
        rows.append([name, *numbers, worst])
    return rows


def main() -> None:
    """Prints the table and keeps it where --results says so."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--half", choices=("development", "judged"), default="development")
    parser.add_argument("--options", default="{}", help="of tuskml's tasks, as JSON")
    parser.add_argument("--only", default="", help="contenders whose name has one of TEXT,TEXT")
    parser.add_argument("--data-dir", type=Path, default=DEFAULT_DATA_DIR)
    parser.add_argument("--kept", action="store_true", help="train no peer whose loss is not kept")
    parser.add_argument("--results", action="store_true")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    cases = losses(args)
    rows = table_of(cases)
    for row in rows:
        print(", ".join(f"{name} {value}" for name, value in zip(COLUMNS, row, strict=True)))
    if args.results:
        title = f"Small groups, the {args.half} sets, all libraries at their defaults"
        run = result_files.described("small_groups", title, machine.facts())
        about = {"command": f"small_groups --half {args.half}", "comparisons": [], "figures": []}
        print(result_files.add(run | about | {"tables": [{"columns": COLUMNS, "rows": rows}]}))


if __name__ == "__main__":
    main()
