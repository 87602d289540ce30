"""Sealed models: immutable files, written here and mapped by readers."""
