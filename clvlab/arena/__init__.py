"""Use cases over a store: competitions, deploys, backtests, uploads, jobs, the leaderboard; independent of HTTP."""
