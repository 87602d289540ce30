"""Nodes of a graph whose names nobody reads: arithmetic on columns, one operator at a time."""

from typing import Any

import numpy as np

from tuskml.formats.onnx.graph import Graph


class Steps:
    """Adds nodes and constants to a graph; their names begin with `name`."""

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
