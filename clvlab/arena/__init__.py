"""Use cases, without a word of HTTP, terminals or notebooks."""
