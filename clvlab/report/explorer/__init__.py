"""The explorer without a widget: one market of a run at a time, with its decisions and a replay of its prices."""
