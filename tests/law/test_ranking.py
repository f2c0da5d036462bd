import polars as pl

from clvlab.law.metrics import rank


def test_mean_ranks_first_ties_go_by_agent_and_null_stands_last():
    outcomes = pl.DataFrame(
        {
            "agent_id": ["z", "nobody", "b", "a", "loser"],
            "mean_clv_bps": [5.0, None, 7.0, 5.0, -3.0],
            "sim_pnl": [900, 999, 0, 0, 1000],
        }
    )

    table = rank(outcomes)

    assert table.select("rank", "agent_id").rows() == [(1, "b"), (2, "a"), (3, "z"), (4, "loser"), (5, "nobody")]


def test_agents_without_a_sample_are_ordered_by_name():
    outcomes = pl.DataFrame(
        {"agent_id": ["c", "a", "b"], "mean_clv_bps": [None, None, None]}, schema_overrides={"mean_clv_bps": pl.Float64}
    )

    assert rank(outcomes)["agent_id"].to_list() == ["a", "b", "c"]
