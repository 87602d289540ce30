"""The speed of this machine: constants of calibrations, and seconds of reading rows."""
