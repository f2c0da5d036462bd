"""Bodies of requests and responses, a file per resource."""
