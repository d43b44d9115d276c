"""What SGLang and vLLM are: process shapes, flags, endpoints, metric names, line patterns. Pure, mostly tables."""
