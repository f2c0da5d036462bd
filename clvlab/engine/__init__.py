"""The engine: replays a tape through agents and seals what they proposed. Deterministic and offline."""
