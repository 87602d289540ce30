"""Modules of PyTorch as learners: training by an optimizer, and layers as a net of tuskml."""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from tuskml.errors import DataError, OptionError
from tuskml.formats.onnx_reading.values import Dense
from tuskml.kernels.library import cancel_mark, raise_if_cancelled
from tuskml.model.scoring import Floats
from tuskml.own.converted import ModelFields, of_margins

Make = Callable[[int, int], Any]
"""Makes a module of the numbers of features and of outputs."""
PARAMETERS = {"epochs": 100, "batch_size": 32}
ACTIVATIONS = {"ReLU": "relu", "Tanh": "tanh", "GELU": "gelu"}
PASSED = ("Dropout", "Identity", "Flatten")
"""Modules that change nothing of a prediction."""
EXPECTED = "expected Sequential of Linear, BatchNorm1d, ReLU, Tanh, GELU, Dropout and Identity"


@dataclass(frozen=True)
class TrainedModule:
    """A module after its training. outputs: of a row; classifies: whether they are margins."""

    module: Any
    outputs: int
    classifies: bool
    epochs: int

    def answers(self, x: Floats) -> Floats:
        """The numbers (n,) or the probabilities of classes (n, classes), computed in floats."""
        torch = import_module("torch")
        with torch.no_grad():
            rows = torch.as_tensor(np.asarray(x, np.float32))
            margins = self.module.eval()(rows).reshape(len(x), self.outputs)
            if not self.classifies:
                found = margins[:, 0]
            elif self.outputs > 1:
                found = torch.softmax(margins, 1)
            else:
                found = torch.sigmoid(torch.cat([-margins, margins], 1))
        return np.asarray(found.numpy(), np.float64)


def parts_of(module: Any) -> Iterator[Any]:
    """The parts of a module one after the other. Raises DataError for one of another kind."""
    name = type(module).__name__
    if name == "Sequential":
        for one in module:
            yield from parts_of(one)
    elif name not in ("Linear", "BatchNorm1d", *ACTIVATIONS, *PASSED):
        raise DataError(f"the module has {name}, {EXPECTED}")
    elif name == "GELU" and module.approximate != "none":
        raise DataError("'GELU' is approximated by tanh, expected the exact one")
    elif name not in PASSED:
        yield module


def convert(of: TrainedModule) -> ModelFields:
    """The net of a module's layers."""
    dense: Dense | None = None
    for one in parts_of(copy.deepcopy(of.module).double().eval()):
        name = type(one).__name__
        if name == "Linear":
            dense = with_layer(dense, *linear(one))
        elif dense is None:
            raise DataError(f"the module begins with {name}, expected Linear")
        elif name == "BatchNorm1d":
            scale, shift = normal(one)
            dense = dense.times(scale).plus(shift)
        else:
            dense = dense.activate(ACTIVATIONS[name])
    if dense is None or dense.active:
        raise DataError("the module ends with an activation, expected Linear")
    response = "identity" if not of.classifies else "softmax" if of.outputs > 1 else "logistic"
    return of_margins(dense, response, single=True, iterations=of.epochs)


def with_layer(dense: Dense | None, weights: Floats, biases: Floats) -> Dense:
    """The layers and a further one, which merges with one without an activation."""
    if dense is None:
        return Dense(weights.shape[1], ((weights, biases),))
    if dense.active:
        return Dense(dense.inputs, (*dense.layers, (weights, biases)), dense.activations)
    before, bias = dense.layers[-1]
    merged = weights @ before, weights @ bias + biases
    return Dense(dense.inputs, (*dense.layers[:-1], merged), dense.activations)


def linear(of: Any) -> tuple[Floats, Floats]:
    """The weights (units, inputs) and biases (units,) of a layer."""
    weights = of.weight.detach().numpy()
    return weights, np.zeros(len(weights)) if of.bias is None else of.bias.detach().numpy()


def normal(of: Any) -> tuple[Floats, Floats]:
    """The factors and shifts of a normalization, (units,) each."""
    if of.running_mean is None:
        raise DataError("'BatchNorm1d' keeps no means, expected track_running_stats=True")
    scale = 1 / np.sqrt(of.running_var.numpy() + of.eps)
    if of.affine:
        scale = scale * of.weight.detach().numpy()
    shift = -of.running_mean.numpy() * scale
    return scale, shift + of.bias.detach().numpy() if of.affine else shift


def refuse_parameters(given: Mapping[str, Any]) -> None:
    """Raises OptionError unless the parameters are whole numbers of at least 1."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise OptionError(
                f"option '{name}' is {value!r}, expected a whole number of at least 1"
            )


def refuse_module(name: str, make: Make) -> None:
    """Raises OptionError unless a function makes a module whose layers are a net of tuskml."""
    try:
        for _ in parts_of(make(2, 1)):
            pass
    except DataError as error:
        raise OptionError(f"the estimator of learner '{name}': {error}") from None


def fitting(make: Make, optimizer: Callable[[Any], Any], classifies: bool) -> Callable[..., Any]:
    """A function that trains a module: it takes steps against the gradient of the mean loss of
    batches of rows, half the squared error or the negative log-likelihood of classes.
    """

    def fit(
        x: Floats, y: Any, weight: Floats | None, *, epochs: int, batch_size: int, seed: int
    ) -> TrainedModule:
        torch = import_module("torch")
        mark, classes = cancel_mark(), int(y.max()) + 1 if classifies else 1
        outputs = classes if classes > 2 else 1
        rows = torch.as_tensor(np.asarray(x, np.float32))
        labels = torch.as_tensor(np.asarray(y, np.int64 if outputs > 1 else np.float32))
        weights = torch.as_tensor(np.asarray(np.ones(len(y)) if weight is None else weight))
        weights = weights.float() / weights.float().mean()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = make(x.shape[1], outputs)
            steps = optimizer(module.parameters())
            for _ in range(epochs):
                module.train()
                raise_if_cancelled(mark)
                for batch in torch.split(torch.randperm(len(y)), batch_size):
                    margins = module(rows[batch]).reshape(len(batch), outputs)
                    each = losses(torch, margins, labels[batch], classifies)
                    steps.zero_grad()
                    (weights[batch] * each).mean().backward()
                    steps.step()
        return TrainedModule(module, outputs, classifies, epochs)

    return fit


def losses(torch: Any, margins: Any, labels: Any, classifies: bool) -> Any:
    """The loss of each row, (n,)."""
    if not classifies:
        return (margins[:, 0] - labels) ** 2 / 2
    by = torch.nn.functional
    if margins.shape[1] > 1:
        return by.cross_entropy(margins, labels, reduction="none")
    return by.binary_cross_entropy_with_logits(margins[:, 0], labels, reduction="none")
