"""The package's version; the extension built with it must say the same."""

VERSION = "0.1.0"
"""The version in pyproject.toml, which is not read: finding installed packages takes a while."""
