"""Boosted trees to a file that LightGBM reads."""

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from tuskml.model.any_model import model_in
from tuskml.model.file import save
from tuskml.model.model import Model

if TYPE_CHECKING:
    from tuskml.estimators import TuskClassifier, TuskRegressor


def export_lightgbm(
    model: "Model | TuskClassifier | TuskRegressor",
    path: str | PathLike[str],
    unseen_as_missing: bool = False,
) -> None:
    """Writes boosted trees to a file in LightGBM's text format, as `Model.to_lightgbm` makes it.

    model: also a fitted estimator of one model. unseen_as_missing: as there. The file appears when
    it is complete.
    """
    save(model_in(model).to_lightgbm(unseen_as_missing), Path(path))
