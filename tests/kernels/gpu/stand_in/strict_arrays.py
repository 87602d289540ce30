"""NumPy as unforgiving as CuPy: arrays on a device do not mix with those of the host."""

import ctypes

import numpy as np


class MemoryPointer:
    """Where an array begins, with CuPy's copies; from the host's memory in the stream's order."""

    def __init__(self, mem, offset):
        self.ptr = mem.ctypes.data + offset

    def copy_from_host_async(self, mem, size, stream=None):
        assert type(mem) is int
        stream.queue.append((self.ptr, mem, size))

    def copy_from_device_async(self, src, size, stream=None):
        ctypes.memmove(self.ptr, src.ptr, size)


def refuse_host(values):
    """Raises where one of them is an array of the host, of one dimension or more."""
    for value in values:
        if isinstance(value, (list, tuple)):
            refuse_host(value)
        elif isinstance(value, np.ndarray) and not isinstance(value, DeviceArray) and value.ndim:
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")


def plain(value):
    """The same for NumPy."""
    if isinstance(value, DeviceArray):
        return value.view(np.ndarray)
    if isinstance(value, (list, tuple)):
        return type(value)(plain(each) for each in value)
    return value


def placed(value):
    """What NumPy gives, on the device; sums are arrays there too."""
    if isinstance(value, tuple):
        return tuple(placed(each) for each in value)
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value).view(DeviceArray)
    return value


class DeviceArray(np.ndarray):
    """An array of the device's; the host's raise where they meet one, as indices too."""

    @property
    def data(self):
        return MemoryPointer(self, 0)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **given):
        refuse_host(inputs)
        if out is not None:
            refuse_host(out)
            given["out"] = plain(out)
        found = placed(getattr(ufunc, method)(*plain(inputs), **given))
        return out[0] if out is not None else found

    def __array_function__(self, function, types, args, given):
        raise TypeError(f"numpy.{function.__name__} does not take arrays of the device")

    def __getitem__(self, key):
        refuse_host([key])
        return placed(self.view(np.ndarray)[plain(key)])

    def __setitem__(self, key, value):
        refuse_host([key, value])
        self.view(np.ndarray)[plain(key)] = plain(value)

    def sum(self, *args, **given):
        return placed(self.view(np.ndarray).sum(*args, **given))


class StrictNumPy:
    """NumPy's functions for arrays of the device."""

    ndarray = DeviceArray

    def __getattr__(self, name):
        if name == "random":  # needs cuRAND
            raise AttributeError(name)
        found = getattr(np, name)
        if isinstance(found, type) or not callable(found):
            return found

        def function(*args, **given):
            refuse_host(args)
            refuse_host(given.values())
            return placed(found(*plain(args), **plain_values(given)))

        return function


def plain_values(given):
    """The same for arguments by name."""
    return {name: plain(value) for name, value in given.items()}
