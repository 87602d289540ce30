"""The algorithms, each a choice of the seven operators."""

from collections.abc import Callable

from tuskml.udas.algorithms import bgd, lbfgs, newton, sgd, svrg
from tuskml.udas.kernels import Floats
from tuskml.udas.operators import Operators
from tuskml.udas.plan import Plan
from tuskml.udas.problem import Problem

Build = Callable[[Problem, Plan, Floats, float | None], Operators]

ALGORITHMS: dict[str, Build] = {
    "bgd": bgd.operators,
    "mgd": sgd.operators,
    "sgd": sgd.operators,
    "hogwild": sgd.operators,
    "hogbatch": sgd.operators,
    "lbfgs": lbfgs.operators,
    "newton": newton.operators,
    "svrg": svrg.operators,
}
