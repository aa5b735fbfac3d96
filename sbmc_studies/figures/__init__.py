"""Pictures, made from stored arrays; matplotlib (the extra `plots`) is imported to draw one."""
