"""Routes, a file per resource."""
