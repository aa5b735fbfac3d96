"""The weighted ensemble that `fit` returns: predict, save, load, merge."""
