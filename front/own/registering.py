"""Registers estimators of other packages as tasks of `train_model`."""

import inspect
from collections.abc import Callable
from typing import Any

from tuskml.errors import OptionError, nearest, one_of
from tuskml.groups.selection import search
from tuskml.learners import registry
from tuskml.learners.linear.own.operators import check_new
from tuskml.learners.options.table import forget_parsed
from tuskml.learners.tasks import ALIASES
from tuskml.own.conversion import family, refuse_unknown
from tuskml.own.fitting import Fit, Recipe
from tuskml.own.learner import OwnLearner
from tuskml.own.options import OwnOptions, parameters_in, parameters_of, table_of
from tuskml.own.torch_modules import PARAMETERS, fitting, refuse_module, refuse_parameters
from tuskml.udas.tasks import TASK_TABLE

LABELS = ("numbers", "classes")
SEED, THREADS = "random_state", "n_jobs"


def register_learner(
    name: str,
    estimator: Any = None,
    *,
    fit: Fit | None = None,
    predict: Callable[[Any, Any], Any] | None = None,
    optimizer: Callable[[Any], Any] | None = None,
    labels: str | None = None,
) -> None:
    """Registers an estimator as a task: `train_model(name, label, features)` then trains with it.

    estimator: one of scikit-learn, LightGBM, XGBoost or CatBoost, or a class or function without
    arguments that makes one; each group fits a copy. Its parameters are options of the task, and
    `params` has them by name. fit: instead, a function of features (n, d), labels (n,),
    `sample_weight` (n,) or None if it has that parameter, and parameters by keyword, which are the
    options. It returns a `Model`, or what `model_from` reads, but no file.
    predict: a function of what `fit` returned and of features, whose numbers, or probabilities
    (n, classes), the model has to reproduce; by default the estimator's own.
    optimizer: with a PyTorch module, a function of its parameters that makes an optimizer; then
    the estimator is a function of the numbers of features and of outputs (of classes their
    number, or 1 of two) that makes a `Sequential` of linear layers. It is trained in batches, by
    options `epochs`, `batch_size` and `seed`.
    labels: "numbers" or "classes"; by default as the estimator is, otherwise "numbers".

    A second call with the same name replaces the learner. Raises OptionError for what cannot be
    registered, DataError for an estimator that no model of tuskml predicts like.

    >>> from sklearn.linear_model import Ridge
    >>> register_learner("my_ridge", Ridge(alpha=0.5))
    >>> unregister_learner("my_ridge")
    """
    check_new("learner", name, [*TASK_TABLE, *ALIASES])
    others = [one for one in registry.learners() if one not in registry.ADDED]
    if any(name in one.tasks for one in others):
        raise OptionError(
            f"learner '{name}' is the name of a registered task, expected another one"
        )
    if (estimator is None) == (fit is None):
        raise OptionError(f"learner '{name}' needs an estimator or fit, expected one of them")
    if labels is not None and labels not in LABELS:
        raise OptionError(f"labels is {labels!r}, expected {one_of(LABELS)}")
    if predict is not None and not callable(predict):
        raise OptionError(
            f"predict is {predict!r}, expected a function of a fitted estimator and features"
        )
    if optimizer is not None:
        learner = of_module(name, estimator, optimizer, labels == "classes")
    elif fit is not None:
        learner = of_function(name, fit, predict, labels == "classes")
    else:
        learner = of_estimator(name, estimator, predict, labels)
    forget(name)
    registry.ADDED.append(learner)


def unregister_learner(name: str) -> None:
    """Removes a registered learner; its models predict as before."""
    known = [key for one in registry.ADDED for key in one.tasks]
    if name not in known:
        raise OptionError(
            f"no learner '{name}' is registered, expected "
            + (f"{one_of(known)}{nearest(name, known)}" if known else "a registered one")
        )
    forget(name)


def forget(name: str) -> None:
    """Removes the learner of this name, and what was read of options."""
    registry.ADDED[:] = [one for one in registry.ADDED if name not in one.tasks]
    forget_parsed()
    search.forget_searches()


def of_function(
    name: str, fit: Fit, predict: Callable[[Any, Any], Any] | None, classifies: bool
) -> OwnLearner:
    """The learner of a function."""
    if not callable(fit):
        raise OptionError(f"fit is {fit!r}, expected a function of features and labels")
    parameters = parameters_in(fit)
    weighs = "sample_weight" in inspect.signature(fit).parameters

    def fit_rows(x: Any, y: Any, weight: Any, **params: Any) -> Any:
        return fit(x, y, **({"sample_weight": weight} if weighs else {}), **params)

    what = getattr(fit, "__qualname__", type(fit).__qualname__)
    recipe = Recipe(name, f"{what}()", fit_rows, classifies, predict)
    shared = common_options(None, None, weighs and classifies)
    table = table_of(name, parameters, shared, False, lambda _: None)
    return OwnLearner(recipe, table, weighs)


def of_module(
    name: str, make: Any, optimizer: Callable[[Any], Any], classifies: bool
) -> OwnLearner:
    """The learner of a PyTorch module."""
    if not callable(make) or not callable(optimizer):
        raise OptionError(
            f"learner '{name}' has an optimizer, expected a function of two numbers that makes a "
            "module, and a function of its parameters that makes an optimizer"
        )
    refuse_module(name, make)
    recipe = Recipe(
        name,
        "a module of PyTorch",
        fitting(make, optimizer, classifies),
        classifies,
        lambda of, x: of.answers(x),
        encodes=True,
        seeds="seed",
        parameters=PARAMETERS,
    )
    shared = common_options("seed", None, classifies)
    table = table_of(
        name, PARAMETERS, shared, False, lambda options: refuse_parameters(options.parameters)
    )
    return OwnLearner(recipe, table, True)


def of_estimator(
    name: str, given: Any, predict: Callable[[Any, Any], Any] | None, labels: str | None
) -> OwnLearner:
    """The learner of an estimator."""
    make = factory_of(name, given)
    prototype = make()
    refuse_unknown(prototype)
    kind = family(prototype)
    classifies = is_classifier(prototype) if labels is None else labels == "classes"
    parameters = parameters_of(prototype)
    weighs = "sample_weight" in inspect.signature(prototype.fit).parameters
    module = type(prototype).__module__
    threads = THREADS if kind != "sklearn" or module.startswith("sklearn.ensemble") else None
    seed = SEED if parameters.get(SEED, 0) is None else None
    threads = threads if parameters.get(threads or "", 0) is None else None
    quiet = {"verbosity": -1} if kind == "lightgbm" and "verbosity" not in parameters else {}
    gaps = kind != "sklearn" or type(prototype).__name__.startswith("HistGradientBoosting")

    def fit_rows(x: Any, y: Any, weight: Any, **params: Any) -> Any:
        one = make().set_params(**quiet, **params)
        return one.fit(x, y, **({} if weight is None else {"sample_weight": weight}))

    def check(options: OwnOptions) -> None:
        if kind == "sklearn":
            refuse_values(make, options)

    what = f"{type(prototype).__name__} of {kind}"
    recipe = Recipe(name, what, fit_rows, classifies, predict, kind == "xgboost", seed, threads)
    shared = common_options(seed, threads, weighs and classifies)
    return OwnLearner(recipe, table_of(name, parameters, shared, gaps, check), weighs)


def common_options(seed: str | None, threads: str | None, weighs_classes: bool) -> tuple[str, ...]:
    """The options that a learner shares with tuskml's own."""
    found = {"seed": seed, "threads": threads, "class_weight": weighs_classes, "format": True}
    return tuple(name for name, has in found.items() if has)


def factory_of(name: str, given: Any) -> Callable[[], Any]:
    """A function that makes unfitted estimators. Raises OptionError for other objects."""
    if isinstance(given, type) or not hasattr(given, "get_params"):
        made = given() if callable(given) else None
        if not all(hasattr(made, one) for one in ("fit", "get_params", "set_params")):
            raise OptionError(
                f"the estimator of learner '{name}' is {given!r}, expected one of scikit-learn, "
                "LightGBM, XGBoost or CatBoost, or a function that makes one"
            )
        return given  # type: ignore[no-any-return]
    from sklearn.base import clone

    return lambda: clone(given)


def is_classifier(estimator: Any) -> bool:
    """Returns whether an estimator predicts classes."""
    from sklearn.base import is_classifier as classifies

    return bool(classifies(estimator))


def refuse_values(make: Callable[[], Any], options: OwnOptions) -> None:
    """Raises OptionError for parameters that the estimator itself finds invalid."""
    given = options.parameters
    check = getattr(make().set_params(**given), "_validate_params", None)
    if not given or check is None:
        return
    try:
        check()
    except ValueError as error:  # scikit-learn's InvalidParameterError names the parameter
        named = next((one for one in given if f"'{one}'" in str(error)), next(iter(given)))
        raise OptionError(f"option '{named}' is invalid: {' '.join(str(error).split())}") from None
