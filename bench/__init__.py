"""numamicro against its peers: both measured in turns in one run, and judged by their ratio."""
