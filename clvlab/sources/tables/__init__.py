"""Tables of any provider: CSV, Parquet and frames whose columns a mapping explains."""
