"""Writes small models of CatBoost, and what it predicts, for tests on machines without it.

python scripts/tests/catboost_models.py > tests/front/own/catboost_models.json
"""

import json
import tempfile
from pathlib import Path

import catboost as cb
import numpy as np
import pandas as pd

KINDS = {
    "RMSE": cb.CatBoostRegressor(depth=3),
    "far": cb.CatBoostRegressor(nan_mode="Max", depth=2),
    "grown": cb.CatBoostRegressor(grow_policy="Lossguide", max_leaves=5),
    "MAE": cb.CatBoostRegressor(loss_function="MAE", depth=2),
    "Quantile": cb.CatBoostRegressor(loss_function="Quantile:alpha=0.8", depth=2),
    "Huber": cb.CatBoostRegressor(loss_function="Huber:delta=1", depth=2),
    "Poisson": cb.CatBoostRegressor(loss_function="Poisson", depth=2),
    "Tweedie": cb.CatBoostRegressor(loss_function="Tweedie:variance_power=1.4", depth=2),
    "Logloss": cb.CatBoostClassifier(depth=2),
    "CrossEntropy": cb.CatBoostClassifier(loss_function="CrossEntropy", depth=2),
    "MultiClass": cb.CatBoostClassifier(loss_function="MultiClass", depth=2),
    "of two": cb.CatBoostClassifier(loss_function="MultiClass", depth=2),
    "grown classes": cb.CatBoostClassifier(
        loss_function="MultiClass", grow_policy="Depthwise", depth=2
    ),
}
REFUSED = {
    "categories": cb.CatBoostRegressor(depth=2, cat_features=["a"]),
    "fair": cb.CatBoostRegressor(loss_function="LogCosh", depth=2),
}
NAMES = ["a", "b", "c"]
KEPT = ("params", "class_params")
"""Parts of `model_info` on predictions."""


def json_of(one: cb.CatBoost) -> dict:
    """The model without what says how it was trained."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        one.save_model(str(path), format="json")
        found = json.loads(path.read_text())
    about = {name: one for name, one in found["model_info"].items() if name in KEPT}
    about["params"] = {"loss_function": about["params"]["loss_function"]}
    return found | {"model_info": about}


def shown() -> dict:
    """The models, rows and predictions."""
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 3))
    x[::9, 1] = np.nan
    y = 2 * x[:, 0] + np.nan_to_num(x[:, 1]) ** 2
    three = np.array(["low", "mid", "top"])[np.digitize(y, [-1, 1])]
    counts = abs(y).round()
    labels = {
        "Poisson": counts,
        "Tweedie": counts,
        "Logloss": (y > 0) * 1 + 3,
        "CrossEntropy": (y > 0) * 1,
        "MultiClass": three,
        "of two": y > 0,
        "grown classes": np.digitize(y, [-1, 1]) * 2,
    }
    found, at = {}, []
    for name, one in KINDS.items():
        one.set_params(iterations=3, random_seed=0, thread_count=1, allow_writing_files=False)
        one.set_params(verbose=0)
        given = pd.DataFrame(x, columns=NAMES) if name in ("Logloss", "Huber") else x
        one.fit(given, labels.get(name, y))
        model = json_of(one)
        found[name] = {"model": model}
        splits = [
            split for tree in model.get("oblivious_trees", ()) for split in tree["splits"] or ()
        ]
        at += [(split["float_feature_index"], split["border"]) for split in splits[:3]]
    rows = [*x[:20].tolist(), [np.nan, 0.1, 0.1], [0.1, 0.1, np.nan]]
    for k, border in at:
        single = np.float32(border)
        for near in (single, np.nextafter(single, np.float32(np.inf))):
            row = [0.5, -0.5, 0.25]
            row[k] = (float(near) + float(single)) / 2
            rows.append(row)
    for name, one in KINDS.items():
        classifies = hasattr(one, "predict_proba")
        predict = one.predict_proba if classifies else one.predict
        found[name]["predicted"] = predict(np.array(rows)).astype(float).round(9).tolist()
        found[name]["classes"] = list(map(str, one.classes_)) if classifies else []
    nulls = [[None if np.isnan(value) else value for value in row] for row in rows]
    refused = {}
    for name, one in REFUSED.items():
        one.set_params(iterations=1, thread_count=1, allow_writing_files=False, verbose=0)
        frame = pd.DataFrame(x, columns=NAMES)
        if name == "categories":
            frame["a"] = frame["a"].round().astype(int).astype(str)
        refused[name] = json_of(one.fit(frame, y))
    return {"rows": nulls, "models": found, "refused": refused}


if __name__ == "__main__":
    print(json.dumps(shown(), separators=(",", ":")))
