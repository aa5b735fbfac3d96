"""Networks of a usual size on all of MNIST: the default of `sbmc.fit` beside other methods."""
