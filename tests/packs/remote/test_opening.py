import clvlab as cl
from clvlab.application.packs import bundled_catalog, push_pack


def test_a_backtest_of_one_fixture_is_that_of_the_local_pack(s3):
    push_pack("starter", "s3://odds/mine/starter")

    pack = cl.open_pack("s3://odds/mine/starter")
    there = cl.backtest(pack, agent="cumulative-drift", fixtures=[90000003])
    here = cl.backtest("starter", agent="cumulative-drift", fixtures=[90000003])

    assert there.run.run_id == here.run.run_id
    assert there.run.source == here.run.source
    assert there.run.verify().passed
