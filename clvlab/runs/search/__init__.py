"""Points of a search: their names, the work at each, the machines that do it, and the storage of sums."""
