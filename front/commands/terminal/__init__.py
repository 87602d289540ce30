"""What the commands share: grammar, arguments, prompt, progress bar, Ctrl-C."""
