"""What everything stands on: files, caches, times, names given wrong, work in parallel."""
