"""nvidia-smi: what to ask and how to read the answer. Pure."""
