"""Running a study: its run file, what it trains, what it writes."""
