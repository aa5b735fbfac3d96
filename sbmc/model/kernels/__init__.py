"""Value and gradient of the log likelihood without autograd: matrix products and C."""
