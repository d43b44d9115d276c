"""Launches, phases and runs kept in SQLite. Their room; it is empty until the issue on history."""
