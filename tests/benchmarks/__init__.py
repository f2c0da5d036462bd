"""Benchmarks: every figure beside its budget, and beside a named baseline measured in the same run."""
