"""Views of a proof: checks, evidence line by line, paths of the Merkle tree, and copies to tamper with."""
