"""Where a batch of nets trains: the GPU that the option `device` takes, or the CPU."""

from tuskml.kernels.gpu import cuda, placement
from tuskml.kernels.gpu.nets.training import trained_on_device
from tuskml.kernels.nets.training import ByGroup, Rules, Trained, trained
from tuskml.kernels.passes import Pass
from tuskml.learners.nets.options import NetOptions
from tuskml.schedule.devices import gpu_in_turn


def trained_somewhere(
    rows: Pass, rules: Rules, memory: int, given: ByGroup, options: NetOptions
) -> Trained:
    """The net of each group. OptionError where 'gpu' is asked for and cannot be."""
    what = "a net of rows with weights" if rows.weighted else without_arrays(options, rules)
    if what is not None:
        found = placement.without_kernels(what)
    else:
        found = placement.answer(options.device, rows.groups)
    if not found.taken(options.device):
        return trained(rows, rules, memory, given)
    with gpu_in_turn(rows.cancel_mark), cuda.failures():
        return trained_on_device(cuda.device(), rows, rules, given)


def without_arrays(options: NetOptions, rules: Rules) -> str | None:
    """What of a request only the CPU does, as a sentence's subject."""
    for name in ("dropout", "validation", "time"):
        if getattr(options, name):
            return f"a net with option '{name}'"
    return "a net with embedded categories" if rules.tables else None
