"""Records of runs: one JSON file each, found by settings and pooled over seeds."""
