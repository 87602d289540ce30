"""Figures of trainings, models and metrics; needs matplotlib, as in `pip install 'tuskml[plot]'`.

`trainings.py` draws convergence, coefficients and plans, `path.py` models by penalty,
`dependence.py` the features that matter and how, `confusion.py` labels against predicted classes.
"""

from tuskml.plots.confusion import plot_confusion
from tuskml.plots.dependence import plot_dependence, plot_importance
from tuskml.plots.path import plot_path
from tuskml.plots.trainings import (
    gaps,
    models_by_name,
    plot_calibration,
    plot_coefficients,
    plot_convergence,
    plot_lift,
    plot_plan,
    plot_precision_recall,
    plot_roc,
)

__all__ = [
    "gaps",
    "models_by_name",
    "plot_calibration",
    "plot_coefficients",
    "plot_confusion",
    "plot_convergence",
    "plot_dependence",
    "plot_importance",
    "plot_lift",
    "plot_path",
    "plot_plan",
    "plot_precision_recall",
    "plot_roc",
]
