"""What a user writes with each tool for the same work; the command counts these lines."""
