"""The values of the option `covariance`."""

CLASSIC = "classic"
COVARIANCES = (CLASSIC, "HC0", "HC1", "HC2", "HC3")
