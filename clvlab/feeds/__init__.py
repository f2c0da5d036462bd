"""Live feeds: what providers send, as it comes, and where something of it was missed."""
