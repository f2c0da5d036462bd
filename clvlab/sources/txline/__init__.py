"""TxLINE: its stable-price messages, files of them, and its live feed."""
