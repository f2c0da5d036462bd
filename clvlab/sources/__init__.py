"""Sources: where odds come from, a folder for each provider; its messages, files and sockets are read by the same code."""
