"""Tables from records, beside the paper's: a study's own, and those of the appendices."""
