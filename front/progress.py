"""Progress bars for queries that train."""

from collections.abc import Iterator
from contextlib import contextmanager

from tqdm.auto import tqdm

from tuskml.groups.events import Event, listening


@contextmanager
def progress(groups: int | None = None, label: str = "training") -> Iterator[None]:
    """Shows how many groups are trained while the context's queries run.

    groups: how many there will be, when known.
    """
    with tqdm(total=groups, desc=label, unit="model", leave=True) as bar:

        def show(event: Event) -> None:
            if event.groups:
                bar.update(event.groups)
            else:
                bar.set_postfix(iteration=event.iteration, objective=f"{event.objective:.6g}")

        with listening(show):
            yield
