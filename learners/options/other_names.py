"""The names of options in scikit-learn, XGBoost, Keras and Spark, with the conversion."""

ON_WORKERS = (
    "an aggregate has the rows already, so it trains in its database: in DuckDB FROM train(..., "
    "group_by := ...) trains groups on workers, as do tuskml.train(..., group_by=..., "
    "executor=...) and tuskml train --executor"
)
OTHER_NAMES = {
    "c": "scikit-learn's C is l2 = 1 / (C * n) here, n the number of rows",
    "alpha": "alpha is l2 = alpha / n of scikit-learn's Ridge (n rows), l2 = alpha of "
    "SGDClassifier and SGDRegressor, l1 = alpha of Lasso",
    "penalty": "the penalty is a number here: l2 = 0.01, l1 = 0.01, or both for elastic net",
    "l1_ratio": "elastic net is l1 = alpha * l1_ratio and l2 = alpha * (1 - l1_ratio) here",
    "reg_param": "Spark's regParam r with elasticNetParam e is l1 = r * e, l2 = r * (1 - e) here",
    "regularization": "give l2 = 0.01, l1 = 0.01, or both",
    "lambda": "lambda is l2 or l1 here, weights of the penalty beside the mean loss",
    "reg_lambda": "XGBoost's reg_lambda is l2 here, as a weight beside the mean loss",
    "reg_alpha": "XGBoost's reg_alpha is l1 here, as a weight beside the mean loss",
    "weight_decay": "weight decay is l2 here",
    "tol": "the tolerance is epsilon here",
    "solver": "the solver is algorithm here",
    "optimizer": "the optimizer is algorithm here",
    "loss": "the loss is the task here, such as 'linear', 'logistic', 'svm', 'huber' or 'poisson'",
    "n_jobs": "n_jobs is threads here",
    "random_state": "random_state is seed here",
    "learning_rate": "the learning rate is step here, and its decay schedule",
    "lr": "the learning rate is step here, and its decay schedule",
    "eta": "eta is step here",
    "eta0": "eta0 is step here",
    "epochs": "the most epochs are max_iter here",
    "n_epochs": "the most epochs are max_iter here",
    "num_epochs": "the most epochs are max_iter here",
    "n_iter": "the most iterations are max_iter here",
    "iterations": "the most iterations are max_iter here",
    "num_iterations": "the most iterations are max_iter here",
    "batchsize": "the rows of a step are batch_size here",
    "early_stopping": "a share of rows held out for early stopping is validation = 0.1 here",
    "validation_fraction": "a share of rows held out for early stopping is validation = 0.1 here",
    "validation_split": "a share of rows held out for early stopping is validation = 0.1 here",
    "timeout": "the most time is time = '90s' here",
    "intercept": "the constant term is fit_intercept = true or false here",
    "bias": "the constant term is fit_intercept = true or false here",
    "n_factors": "the number of factors is rank here",
    "scheduler": "algorithm = 'sgd' trains blocks of ratings that rotate, on threads and workers",
    "factors": "the number of factors is rank here",
    "scale_pos_weight": "XGBoost's scale_pos_weight w is class_weight = [1, w] here",
    "sample_weight": "rows have no weights, class_weight sets weights of classes",
    "tweedie_variance_power": "the variance's power is power here",
    "variance_power": "the variance's power is power here",
    "fixed_effects": "fixed effects are absorb = ['firm', 'year'] here, for task 'linear'",
    "fixef": "fixed effects are absorb = ['firm', 'year'] here, for task 'linear'",
    "normalize": "features are always centred and scaled, so there is nothing to set",
    "standardize": "features are always centred and scaled, so there is nothing to set",
    "standardization": "features are always centred and scaled, so there is nothing to set",
    "pooled": "models that learn from other groups need all groups, which an aggregate does not "
    "see: train(...) with group_by trains them in SQL, and in Python "
    "tuskml.train(..., group_by=..., pooled=True)",
    "executor": ON_WORKERS,
    "placement": ON_WORKERS,
    "worker_timeout": ON_WORKERS,
    "finished": ON_WORKERS,
    "verbose": "tuskml.progress() shows the progress of a training",
    "checkpoint": "a training with option store writes checkpoints; resume = true continues it",
}
"""By lower-case name, from the objectives in the packages' manuals. Ours is mean(loss) + l2/2 ‖w‖²
+ l1 ‖w‖₁; LogisticRegression and LinearSVC minimise C sum(loss) + 1/2 ‖w‖², Ridge ‖y - Xw‖² +
alpha ‖w‖², Lasso ‖y - Xw‖² / 2n + alpha ‖w‖₁, SGD* mean(loss) + alpha/2 ‖w‖²."""


def hint(name: str) -> str:
    """`; ` and the equivalent of another package's option, or an empty string."""
    text = OTHER_NAMES.get(name.lower().strip("_").replace("-", "_"))
    return f"; {text}" if text else ""


TASK_NAMES = {
    "two classes are 'logistic' or 'svm'": (
        *("classification", "classifier", "classify", "binary", "logit", "logreg"),
        *("logistic_regression", "logisticregression", "log_loss"),
    ),
    "regression of a number is 'linear'": (
        *("regression", "regressor", "regress", "ols", "lm", "glm", "gaussian", "squared"),
        *("linear_regression", "linearregression", "linreg", "least_squares"),
    ),
    "ridge regression is 'linear' with the option l2": ("ridge", "ridge_regression"),
    "the elastic net is 'elastic_net'": ("elasticnet", "enet", "glmnet"),
    "logistic regression with an L1 penalty is 'sparse_logistic'": (
        *("lasso_logistic", "logistic_lasso", "sparse_logistic_regression", "l1_logistic"),
    ),
    "a linear support vector machine is 'svm'": ("svc", "linear_svm", "linearsvc", "hinge"),
    "regression of counts is 'poisson'": ("count", "counts", "poisson_regression"),
    "the median is 'quantile', by default of 0.5": ("median", "lad", "l1", "mae", "pinball"),
    "a quantile is 'quantile' with the option quantile": ("quantile_regression", "quantreg"),
    "recommendation is 'matrix_factorization'": ("als", "mf", "recommender", "recommendation"),
}
"""Hints on tasks, by their names in other packages."""
OBJECTIVE_NAMES = {
    "classes, two or more, are 'logistic'": (
        *("multiclass", "multi_class", "softmax", "softprob", "multi:softmax", "multi:softprob"),
        *("binary", "binary:logistic", "classification", "cross_entropy", "log_loss", "gini"),
    ),
    "numbers are 'squared'": (
        *("regression", "reg:squarederror", "l2", "mse", "rmse", "mean_squared_error", "linear"),
    ),
    "the median is 'quantile', by default of 0.5": ("l1", "mae", "regression_l1", "pinball"),
    "counts are 'poisson'": ("count", "counts", "count:poisson"),
    "positive amounts are 'gamma'": ("reg:gamma", "mean_gamma_deviance"),
    "amounts that are often 0 are 'tweedie'": ("reg:tweedie", "compound_poisson"),
}
"""Hints on objectives, by their names in other packages."""
ARGUMENTS = {
    "label": ("target", "y", "outcome", "response", "labels"),
    "source": ("table", "data", "df", "frame", "dataset", "rows", "query", "sql", "relation"),
    "features": ("x", "predictors", "feature", "columns", "inputs"),
    "group_by": ("by", "groups", "group", "partition_by", "key", "keys"),
    "into": ("output", "out", "to", "save", "destination"),
    "kind": ("method", "output_type"),
    "database": ("db", "d", "dbname", "connection", "url", "path"),
    "models": ("model",),
}
"""Hints on arguments, by their names in other packages."""
CONDITIONS = ("where", "filter", "condition", "having")
SETTINGS = ("options", "params", "parameters", "config", "settings", "hyperparameters")


def task_hint(name: str) -> str:
    """`; ` and the task of another name, or an empty string."""
    given = name.lower().replace("-", "_").replace(" ", "_")
    return next((f"; {text}" for text, names in TASK_NAMES.items() if given in names), "")


def objective_hint(name: str) -> str:
    """`; ` and the objective of another name, or an empty string."""
    given = name.lower().replace("-", "_").replace(" ", "_")
    return next((f"; {text}" for text, names in OBJECTIVE_NAMES.items() if given in names), "")


def argument_meant(name: str) -> str:
    """The argument that another name stands for, or an empty string."""
    given = name.lower().strip("_").replace("-", "_")
    return next((ours for ours, names in ARGUMENTS.items() if given in names), "")
