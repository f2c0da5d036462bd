"""What the service answers with, as types: made by the application, declared by the routes, read by the client."""
