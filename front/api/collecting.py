"""Models that a query returned, by key."""

from collections.abc import Iterable, Mapping
from typing import Any

from tuskml.api.call import Training
from tuskml.errors import DataError
from tuskml.model.group_models import Models, by_own_key
from tuskml.model.model import Model


def collect_models(
    rows: Iterable[tuple[tuple[Any, ...], Mapping[str, Any] | None]], training: Training
) -> Model | Models:
    """The one model, or models by key."""
    models = by_own_key(
        (key, None if value is None else training.texts.name_columns(Model.of(value)))
        for key, value in rows
    )
    if not training.keys:
        model = models[()]
        if model is None:
            raise DataError(
                f"{training.source.name} has no row whose label and features are not NULL"
            )
        return model
    return by_keys(models, training)


def by_keys(models: Mapping[tuple[Any, ...], Model | None], training: Training) -> Models:
    """The models of groups, in the order of their keys."""
    names = training.texts.group_by
    by_key = sort_by_key(models)
    if len(names) == 1:
        return Models(((key[0], model) for key, model in by_key), names)
    return Models(by_key, names)


def sort_by_key(
    models: Mapping[tuple[Any, ...], Model | None],
) -> list[tuple[tuple[Any, ...], Model | None]]:
    """Models in the order of their keys, None last; as they came where keys have no order."""
    try:
        return sorted(models.items(), key=lambda item: [(k is None, k) for k in item[0]])
    except TypeError:
        return list(models.items())
