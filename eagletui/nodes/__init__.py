"""Reaching a machine: the Node protocol and its kinds (ssh, local). Knows only shell."""
