"""A property that is computed once for each object."""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):
    """Like `functools.cached_property`, which before Python 3.12 has one lock for all objects.

    With that lock, a thread that waits for rows which lie elsewhere stops all others.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, one: None, owner: type) -> Self: ...

    @overload
    def __get__(self, one: object, owner: type) -> T: ...

    def __get__(self, one: object | None, owner: type) -> "Self | T":
        if one is None:
            return self
        found: T = self.compute(one)
        return one.__dict__.setdefault(self.name, found)  # type: ignore[no-any-return]
