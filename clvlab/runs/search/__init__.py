"""Points of a search: what names the work of each, what does it, on which machines, and where the sums are kept."""
