"""The names of covariances: the values of the option `covariance`, and that by cluster."""

CLASSIC = "classic"
CLUSTERED = "cluster"
"""As the option `cluster` asks for."""
COVARIANCES = (CLASSIC, "HC0", "HC1", "HC2", "HC3")
