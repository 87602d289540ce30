"""Counts the passes over the rows of a training."""

from dataclasses import dataclass


@dataclass
class Meter:
    """Passes that were made, in passes over all rows: one over every k-th chunk counts 1 / k.

    gradients: for the loss and its gradient; losses: for the loss alone; curvatures: for the
    curvature too; products: of the curvature with a direction; whole: whether each pass must be
    counted. Kernels that make several in a call count none, and then they are not used.
    """

    gradients: float = 0.0
    losses: float = 0.0
    curvatures: float = 0.0
    products: float = 0.0
    whole: bool = True

    def passed(self, stride: int, loss_only: bool = False) -> None:
        """Counts a pass for the loss, and unless loss_only its gradient."""
        if loss_only:
            self.losses += 1 / stride
        else:
            self.gradients += 1 / stride


def counts_all(meter: Meter | None) -> bool:
    """Returns whether each pass must be counted, so that no kernel may make several in a call."""
    return meter is not None and meter.whole
