"""The log likelihood and its gradient, in chunks, on all data or on mini-batches."""
