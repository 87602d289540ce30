"""The choice of the device that trains a batch of nets, by the option `device`."""

from tuskml.kernels.gpu import cuda, placement
from tuskml.kernels.gpu.cuda import unless_it_fails
from tuskml.kernels.gpu.nets.training import trained_on_device
from tuskml.kernels.nets.training import ByGroup, Rules, Trained, train_nets
from tuskml.kernels.passes import Pass
from tuskml.learners.nets.options import NetOptions
from tuskml.schedule.devices import gpu_in_turn


def trained_somewhere(
    rows: Pass, rules: Rules, memory: int, given: ByGroup, options: NetOptions
) -> Trained:
    """Trains the net of each group. Raises OptionError if 'gpu' is required and impossible."""
    what = "a net of rows with weights" if rows.weighted else without_arrays(options, rules)
    if what is not None:
        found = placement.without_kernels(what)
    else:
        found = placement.answer(options.device, rows.groups)

    def there() -> Trained:
        with gpu_in_turn(rows.cancel_mark), cuda.failures():
            return trained_on_device(cuda.device(), rows, rules, given)

    def here() -> Trained:
        return train_nets(rows, rules, memory, given)

    return unless_it_fails(options.device, there, here) if found.taken(options.device) else here()


def without_arrays(options: NetOptions, rules: Rules) -> str | None:
    """The part of a request that only the CPU supports, as a sentence's subject."""
    for name in ("dropout", "validation", "time"):
        if getattr(options, name):
            return f"a net with option '{name}'"
    return "a net with embedded categories" if rules.tables else None
