"""clvlab: does an agent beat the closing line? Backtests that anyone can check."""
