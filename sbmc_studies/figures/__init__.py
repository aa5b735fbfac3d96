"""The figures of the studies: what each shows, from records and the arrays beside them."""
