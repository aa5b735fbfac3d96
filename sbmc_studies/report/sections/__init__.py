"""The sections of a study, a file each."""
