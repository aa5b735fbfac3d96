"""A posterior as one graph of inputs to answers, in a file that other runtimes open."""
