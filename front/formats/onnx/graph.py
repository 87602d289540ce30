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
        """Adds a node `refused` that says which rows have no prediction."""
        self.refuses = True

    def intercept(self, values: Any) -> None:
        """Adds the term `intercept` of the margins: NaN for a row without a prediction."""
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
        """The sets of operators of the nodes, besides ONNX's own."""
        from onnx import helper

        needed = any(node.domain == ML for node in self.nodes)
        return [helper.make_opsetid(ML, ML_OPSET)] if needed else []

    def add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """A node with one output."""
        from onnx import helper

        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output


class Steps:
    """Adds nodes and constants to a graph; their names start with `name`."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph, self.name, self.n = graph, name, 0

    def _fresh(self) -> str:
        self.n += 1
        return f"{self.name}_step{self.n}"

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        """An array or a number."""
        return self.graph.constant(self._fresh(), np.asarray(values, dtype))

    def do(self, operator: str, *inputs: str | float, **attributes: Any) -> str:
        """A node's output; numbers among the inputs become constants of double precision."""
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        return self.graph.add(operator, names, self._fresh(), **attributes)

    def quotient(self, value: str, divisor: float) -> str:
        """floor(value / divisor)."""
        return self.do("Floor", self.do("Div", value, divisor))

    def rest(self, value: str, divisor: float) -> str:
        """value - divisor * floor(value / divisor)."""
        return self.do("Sub", value, self.do("Mul", self.quotient(value, divisor), divisor))

    def where(self, condition: str, yes: str | float, no: str | float) -> str:
        """yes where the condition holds, no elsewhere."""
        return self.do("Where", condition, yes, no)
