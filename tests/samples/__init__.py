"""Made-up files in the shapes of sources of which no real sample is at hand: ``python -m tests.samples SOURCE FOLDER``."""
