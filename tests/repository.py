"""Where the repository is: tests read its records, pages and scripts."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "experiments" / "records"
