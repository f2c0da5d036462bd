"""SQL over sealed runs: the law a third time, as one statement; and queries over what a laboratory has."""

from clvlab.sql.opinion import SecondOpinion, second_opinion
from clvlab.sql.tables import PackFiles, Table, query

__all__ = ["PackFiles", "SecondOpinion", "Table", "query", "second_opinion"]
