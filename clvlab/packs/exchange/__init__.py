"""Markets of venues where shares are traded: their books, and the states of markets that these leave."""
