"""Replayed and live runs: specification, execution, sealing, ranking and storage."""
