"""Where sealed runs are kept."""
