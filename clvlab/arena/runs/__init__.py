"""One run, from plan to proof: made, kept in a folder or in the database, read, replayed, bundled."""
