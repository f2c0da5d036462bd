"""What only a notebook draws: widgets, progress bars, and the picture of a sweep."""
