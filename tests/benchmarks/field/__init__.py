"""clvlab beside the field: the same work in tools that others use, in an environment of its own."""
