"""Speed and memory, measured; see docs/benchmarks.md. Not part of the installed package."""
