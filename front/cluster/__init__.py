"""`tuskml.train` and `tuskml.progress`."""
