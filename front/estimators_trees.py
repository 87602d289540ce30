"""scikit-learn estimators of trees; `pip install 'tuskml[sklearn]'` brings what they need."""

from tuskml.estimators.trees import (
    TuskBoostedClassifier,
    TuskBoostedRegressor,
    TuskForestClassifier,
    TuskForestRegressor,
)

__all__ = [
    "TuskBoostedClassifier",
    "TuskBoostedRegressor",
    "TuskForestClassifier",
    "TuskForestRegressor",
]
