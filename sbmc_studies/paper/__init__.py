"""The paper's numbers as data, its tables and its claims beside our records."""
