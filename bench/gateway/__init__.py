"""The gateway against the least one that passes on, and against LiteLLM's proxy: `python -m bench.gateway`."""
