"""Differential fuzz of the verifiers: the package, the file that stands alone and the law in SQL must say the same.

``python -m tests.fuzz --cases 20000 --seed 1`` runs it at length; ``tests/fuzz/test_fuzz.py`` does so for some seconds.
"""
