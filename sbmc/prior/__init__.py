"""The original prior by layer, the anchored Gaussian prior, and its whitened coordinates."""
