"""Matrix factorization on a device."""
