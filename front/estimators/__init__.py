"""scikit-learn estimators; `pip install 'tuskml[sklearn]'` brings what they need.

They train with the same engine, options and objective as SQL's `train_model`. Those of nets are in
`tuskml.estimators_nets`, those of trees in `tuskml.estimators_trees`, those of factorization
machines in `tuskml.estimators.machines`.
"""

from tuskml.estimators.linear import TuskClassifier, TuskRegressor
from tuskml.estimators.shared import model_of

__all__ = ["TuskClassifier", "TuskRegressor", "model_of"]
