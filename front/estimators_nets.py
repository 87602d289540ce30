"""scikit-learn estimators of nets; `pip install 'tuskml[sklearn]'` brings what they need."""

from tuskml.estimators.nets import TuskNetClassifier, TuskNetRegressor

__all__ = ["TuskNetClassifier", "TuskNetRegressor"]
