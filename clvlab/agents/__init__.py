"""Strategy templates, by name: each a typed, bounded configuration and a vectorised decision rule."""
