"""Trees of a group whose rows lie in parts, each on another worker."""
