"""A stand-in for an engine that can be told to misbehave: see launch_server."""
