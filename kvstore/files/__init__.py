"""Files that exist completely or not at all, and locks on directories."""
