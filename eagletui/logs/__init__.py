"""Bytes to records to events to startup state, and the store of lines. Pure."""
