"""Why a function in C that Python calls gives no answer."""

import ctypes


class Refusal(ctypes.Structure):
    """`tusk_refusal` (`udas/scalars/calls.h`)."""

    _fields_ = [("sentence", ctypes.c_char * 512), ("sqlstate", ctypes.c_char * 6)]

    @property
    def text(self) -> str:
        """The sentence."""
        return str(self.sentence.decode(errors="replace"))
