"""A posterior in use: has the world moved, which inputs to label next, and more data."""
