"""Launches kept in SQLite, and what they say of the next one. The store does its work where it is called: callers with
an event loop call it in a thread."""
