"""WebSocket streams."""
