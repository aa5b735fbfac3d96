"""Studies: experiments and methods by name, their presets, records, tables and claims."""
