"""The package's version; the extension built with it must say the same."""

from importlib.metadata import version

VERSION = version("tuskml")
