"""SQL over sealed runs: the law a third time, as one statement."""

from clvlab.sql.opinion import SecondOpinion, second_opinion

__all__ = ["SecondOpinion", "second_opinion"]
