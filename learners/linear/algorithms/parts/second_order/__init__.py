"""Newton's method for groups that are near their optimum, small, or on a device."""
