"""One network that answers as a whole posterior does, in one forward pass."""
