"""A posterior as a folder that the Hugging Face Hub takes: one file, its description, its card."""
