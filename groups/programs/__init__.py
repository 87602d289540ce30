"""Where programs of scheduled updates run: threads of this process, or a Ray cluster."""
