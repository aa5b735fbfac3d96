"""The paper's claims, and our own, as checks on records: one file a study."""
