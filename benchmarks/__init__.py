"""Speed and memory, measured; see README.md. Not part of the installed package."""
