"""What tests of the studies share."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def _committed_records_are_read_once(committed_records):
    """Claims, tables and reports all read the same files."""
