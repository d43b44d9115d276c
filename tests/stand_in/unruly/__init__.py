"""Beside it stands a well-behaved one of the same name: as a package of its own the two are no twins to who checks types."""
