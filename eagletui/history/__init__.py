"""Launches and runs kept in SQLite, and what launches say of the next one. The store does its work where it is called: callers with
an event loop call it in a thread."""
