"""A laboratory of packs and runs, and the functions over them, on this machine or at a service."""
