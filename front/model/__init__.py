"""A trained model in Python: its fields, its file, its summary, its predictions in NumPy."""
