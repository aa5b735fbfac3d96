"""Files that are whole or not there at all, digests, and what tells two runs apart."""
