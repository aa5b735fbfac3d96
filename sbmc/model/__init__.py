"""One network, many parameter vectors: three ways to evaluate it, and the data it is given."""
