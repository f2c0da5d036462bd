"""The explorer without a widget: one market of a run at a time, its decisions, and the replay of what was known."""
