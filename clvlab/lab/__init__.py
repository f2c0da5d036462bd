"""The notebook's face: results that show themselves."""

from clvlab.lab.session import backtest, import_odds, lookahead_audit, open_pack, open_run

__all__ = ["backtest", "import_odds", "lookahead_audit", "open_pack", "open_run"]
