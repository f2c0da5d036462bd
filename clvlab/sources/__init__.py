"""Sources of odds, a folder for each provider; one reader serves a provider's messages, files and sockets."""
