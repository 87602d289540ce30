"""`tuskml.predict` and `tuskml.evaluate`: models joined to rows."""
