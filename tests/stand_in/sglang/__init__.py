"""A stand-in for an engine: real processes, a real port, a real log; only the model is missing."""
