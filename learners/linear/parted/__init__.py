"""Groups whose rows lie in parts, each on another worker."""
