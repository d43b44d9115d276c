"""The simulated node: a real SSH server with processes, GPUs and HTTP behind it."""
