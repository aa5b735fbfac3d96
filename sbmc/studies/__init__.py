"""Studies: experiments and methods by name, their presets, records and tables."""
