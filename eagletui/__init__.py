"""eagletui: a full-screen terminal monitor for LLM servers on GPU nodes. Nothing is imported here: start-up time is a budget."""

__version__ = "0.1.0"
