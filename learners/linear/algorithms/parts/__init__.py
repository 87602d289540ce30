"""The parts of algorithms: their base class, and the operators that several of them share."""
