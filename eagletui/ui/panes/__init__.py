"""Panes: each bound to one part of the snapshot."""
