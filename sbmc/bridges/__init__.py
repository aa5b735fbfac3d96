"""Bridges to other libraries; each is imported when it is used."""
