"""The run log in a file or in the database, and its audit."""
