"""What a proof shows: checks, evidence line by line, paths of the Merkle tree, and copies to tamper with."""
