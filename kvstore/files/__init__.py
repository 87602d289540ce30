"""Files that are written atomically, and locks on directories."""
