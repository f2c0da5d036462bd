"""What a store is asked for: competitions, deploys, backtests, uploads, jobs, the leaderboard; without a word of HTTP."""
