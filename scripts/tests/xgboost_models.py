"""Writes small models of XGBoost, and what it predicts, for tests on machines without it.

python scripts/tests/xgboost_models.py > tests/front/own/xgboost_models.json
"""

import json

import numpy as np
import xgboost as xgb

KINDS = {
    "numbers": xgb.XGBRegressor(n_estimators=3, max_depth=3),
    "dart": xgb.XGBRegressor(booster="dart", rate_drop=0.5, n_estimators=4, max_depth=2),
    "linear": xgb.XGBRegressor(booster="gblinear", n_estimators=9),
    "parallel": xgb.XGBRegressor(num_parallel_tree=2, n_estimators=2, max_depth=2, subsample=0.5),
    "counts": xgb.XGBRegressor(objective="count:poisson", n_estimators=3, max_depth=2),
    "two": xgb.XGBClassifier(n_estimators=3, max_depth=2),
    "three": xgb.XGBClassifier(n_estimators=2, max_depth=2, num_parallel_tree=2, subsample=0.5),
}


def shown() -> dict:
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 3))
    x[::9, 1] = np.nan
    y = 2 * x[:, 0] + np.nan_to_num(x[:, 1]) ** 2
    labels = {"two": (y > 0) * 1, "three": np.digitize(y, [-1, 1]), "counts": abs(y).round()}
    found, at = {}, []
    for name, one in KINDS.items():
        one.set_params(random_state=0, n_jobs=1).fit(x, labels.get(name, y))
        model = json.loads(bytes(one.get_booster().save_raw("json")))
        classes = np.unique(labels[name]).tolist() if name in ("two", "three") else []
        found[name] = {"model": model, "classes": classes}
        for tree in model["learner"]["gradient_booster"].get("model", {}).get("trees", []):
            inner = [k for k, left in enumerate(tree["left_children"]) if left >= 0][:2]
            at += [(tree["split_indices"][k], tree["split_conditions"][k]) for k in inner]
    rows = x[:20].tolist()
    for k, condition in at:
        single = np.float32(condition)
        for near in (single, np.nextafter(single, np.float32(-np.inf))):
            row = [0.5, -0.5, 0.25]
            row[k] = (float(near) + float(single)) / 2
            rows.append(row)
    rows = [row for row in rows if not np.isnan(row).any()]
    for name, one in KINDS.items():
        predict = one.predict_proba if found[name]["classes"] else one.predict
        found[name]["predicted"] = predict(np.array(rows)).astype(float).round(9).tolist()
    return {"rows": rows, "models": found}


if __name__ == "__main__":
    print(json.dumps(shown(), separators=(",", ":")))
