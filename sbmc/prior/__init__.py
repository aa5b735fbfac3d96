"""The anchored Gaussian prior, and the whitened coordinates that it gives."""
