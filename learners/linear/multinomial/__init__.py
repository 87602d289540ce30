"""More than two classes: multinomial logistic regression."""
