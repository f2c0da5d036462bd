"""Live runs: committed to before their data exists, followed message by message, and sealed when their fixture closes."""
