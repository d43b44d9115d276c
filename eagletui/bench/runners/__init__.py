"""Runners that are programs on the node, beside the server."""
