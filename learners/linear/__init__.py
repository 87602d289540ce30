"""Linear models: regression, logistic regression, support vector machines."""
