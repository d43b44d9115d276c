"""Reusable widgets that know only Textual."""
