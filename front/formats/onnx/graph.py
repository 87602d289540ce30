"""A graph of ONNX as it is built."""

from typing import Any

import numpy as np

ML, ML_OPSET = "ai.onnx.ml", 5
"""The operators of trees, of ONNX 1.16, 2024."""


class Graph:
    """Nodes and constants as they are added; an output is called as the caller says."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.refuses = False

    def refuse(self) -> None:
        """From here on a node `refused` says which rows have no prediction."""
        self.refuses = True

    def intercept(self, values: Any) -> None:
        """What is added to the margins, `intercept`: NaN for a row without a prediction."""
        name = "intercept_of_all" if self.refuses else "intercept"
        self.constant(name, np.asarray(values, np.float64))
        if self.refuses:
            self.add("Add", ["refused", name], "intercept")

    def constant(self, name: str, values: Any) -> str:
        """An array by name."""
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def more_operators(self) -> list[Any]:
        """The sets of operators besides ONNX's own that the nodes are of."""
        from onnx import helper

        needed = any(node.domain == ML for node in self.nodes)
        return [helper.make_opsetid(ML, ML_OPSET)] if needed else []

    def add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """A node with one output."""
        from onnx import helper

        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output
