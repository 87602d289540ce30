"""The package's version; the extension built with it must say the same."""

VERSION = "0.1.0"
"""As pyproject.toml has it, which is not read: to look for installed packages takes a while."""
