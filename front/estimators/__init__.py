"""scikit-learn estimators; `pip install 'tuskml[sklearn]'` brings what they need.

They train with the same engine, options and objective as SQL's `train_model`.
"""

from tuskml.estimators.clusters import TuskKMeans
from tuskml.estimators.linear import TuskClassifier, TuskRegressor
from tuskml.estimators.losses import TuskGLMRegressor, TuskHuberRegressor, TuskQuantileRegressor
from tuskml.estimators.machines import TuskFMClassifier, TuskFMRegressor
from tuskml.estimators.nets import TuskNetClassifier, TuskNetRegressor
from tuskml.estimators.ordinal import TuskOrdinalClassifier
from tuskml.estimators.shared import model_of
from tuskml.estimators.sparse import TuskElasticNet, TuskLasso, TuskSparseClassifier
from tuskml.estimators.trees import (
    TuskBoostedClassifier,
    TuskBoostedRegressor,
    TuskForestClassifier,
    TuskForestRegressor,
)

__all__ = [
    "TuskBoostedClassifier",
    "TuskBoostedRegressor",
    "TuskClassifier",
    "TuskElasticNet",
    "TuskFMClassifier",
    "TuskFMRegressor",
    "TuskForestClassifier",
    "TuskForestRegressor",
    "TuskGLMRegressor",
    "TuskHuberRegressor",
    "TuskKMeans",
    "TuskLasso",
    "TuskNetClassifier",
    "TuskNetRegressor",
    "TuskOrdinalClassifier",
    "TuskQuantileRegressor",
    "TuskRegressor",
    "TuskSparseClassifier",
    "model_of",
]
