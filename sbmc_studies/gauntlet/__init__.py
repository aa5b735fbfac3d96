"""The gauntlet: pairs of network and data that nobody has tuned for."""
