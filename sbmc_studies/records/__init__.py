"""What came of runs, as files: read, found and pooled."""
