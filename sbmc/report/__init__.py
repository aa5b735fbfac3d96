"""What pages are made of: charts, tables, numbers and safe markup."""
