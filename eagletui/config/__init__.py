"""What a person writes: pydantic models of the configuration, and loading them."""
