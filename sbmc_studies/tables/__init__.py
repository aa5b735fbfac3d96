"""Tables of the UCI repository: our estimators beside what else is used on tables."""
