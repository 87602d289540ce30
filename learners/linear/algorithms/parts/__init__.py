"""What algorithms are made of: their base class, and the operators that several of them share."""
