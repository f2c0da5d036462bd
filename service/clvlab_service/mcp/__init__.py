"""The arena and the laboratory as tools of the Model Context Protocol; only ``server`` and what mounts it need its SDK."""
