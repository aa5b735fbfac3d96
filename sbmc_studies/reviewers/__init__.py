"""Questions that a reviewer of the paper would ask, and the tables of records that answer them."""
