"""Types of the service's answers: the arena makes them, the routes declare them, and the client reads them."""
