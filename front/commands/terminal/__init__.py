"""Shared by the commands: grammar, arguments, prompt, progress bar, Ctrl-C."""
