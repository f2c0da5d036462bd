"""What the service answers with, as types: made by the arena, declared by the routes, read by the client."""
