"""Which worker holds which rows of which group, and when it trains on them: pure functions.

Learning over groups (S. Li, A. Kumar, Towards an optimized GROUP BY abstraction for
large-scale machine learning, "Kingpin", sections 4.3 to 4.7) without an executor.
"""
