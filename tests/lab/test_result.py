"""One result for every run: what it says of itself, whoever made it, and what it refuses."""

import re

import pytest

import clvlab as cl
from clvlab.errors import AgentError, PolicyError, UnknownAgentError, UnknownPackError, UnsupportedError
from clvlab.lab.results.result import Result
from clvlab.runs.run import Run
from tests.factories import FailingAgent

BOTH = ["baseline", "cumulative-drift"]
ONE = [90000000]


@pytest.fixture(scope="module")
def lab():
    with cl.Lab() as made:
        yield made


@pytest.fixture(scope="module")
def both(lab):
    return lab.compete("starter", BOTH)


def test_a_run_that_is_read_back_says_the_same_as_when_it_was_made(lab):
    made = lab.backtest("starter", "cumulative-drift")
    read = lab.open_run(made.run_id)

    assert read.report == made.report
    assert read.frame.equals(made.frame)
    assert read.scores.equals(made.scores)
    assert read.tear_sheet(resamples=20, draws=2).frame.equals(made.tear_sheet(resamples=20, draws=2).frame)
    assert read.explore().view.decided.equals(made.explore().view.decided)
    assert repr(read).partition("; next")[0] == repr(made).partition("; next")[0]
    assert read.verify().checks == made.verify().checks


def test_one_agent_of_several_is_asked_for_by_its_name(both):
    assert both.tear_sheet("cumulative-drift", resamples=20, draws=2).with_at_close.n == 129
    assert both.explore(agent_id="cumulative-drift").view.decided.height > 0
    for ask in (both.tear_sheet, both.explore, lambda: both.plot):
        with pytest.raises(
            UnknownAgentError, match=r"2 agents: name one of baseline, cumulative-drift, as .tear_sheet\('baseline'\)"
        ):
            ask()
    with pytest.raises(UnknownAgentError, match="no agent 'x': name one of baseline, cumulative-drift"):
        both.tear_sheet("x")


def test_each_agent_of_a_run_that_is_read_back_finds_its_pack(lab, both):
    read = lab.open_run(both.run_id)

    for name in BOTH:
        sheets = [run.tear_sheet(name, resamples=20, draws=2) for run in (read, both)]
        assert sheets[0].frame.equals(sheets[1].frame)
        assert read.moved_lines(name).frame.equals(both.moved_lines(name).frame)
        assert read.explore(agent_id=name).frame.equals(both.explore(agent_id=name).frame)
    assert read.scores.equals(both.scores)


def test_two_agents_of_one_run_are_not_the_same(both):
    first, second = both.parts

    assert first != second
    assert both.tear_sheet(BOTH[0]) != both.tear_sheet(BOTH[1])
    assert both.tear_sheet(BOTH[0]) == both.tear_sheet(BOTH[0])


def test_only_a_backtest_has_a_report(lab, both):
    alone = lab.compete("starter", ["cumulative-drift"])

    assert repr(alone).startswith("Competition of cumulative-drift on 'starter': Not distinguishable from zero")
    for run in (both, alone):
        with pytest.raises(UnsupportedError, match=f"{run.run_id} is a competition"):
            _ = run.report


def test_a_run_without_a_scored_action_says_so(lab):
    nothing = lab.backtest("starter", "cumulative-drift", window=cl.Window(market_allowlist=("nothing",)))

    assert "'starter': Nothing to judge: no decision was scored; next" in repr(nothing)


def test_what_reads_the_pack_names_the_one_that_is_not_at_hand(both):
    alone = Result(Run(both.run.source))

    returns = ["return_pct", "return_low", "return_high"]  # results are in the pack
    assert alone.frame.equals(both.frame.drop(returns))
    with pytest.raises(UnknownPackError, match="'starter' of run_"):
        alone.tear_sheet("baseline")


@pytest.mark.parametrize("verb", [cl.backtest, cl.sweep])
@pytest.mark.parametrize("agent", [("cumulative-drift", {"cooldown_s": 0}), int, 3, FailingAgent])
def test_an_agent_with_parameters_or_of_another_type_is_refused(verb, agent):
    with pytest.raises(AgentError, match="an agent is the name of a template"):
        verb("starter", agent, *([{"warmup_ticks": [10]}] if verb == cl.sweep else []))


def test_a_pack_that_is_not_there_is_named_before_any_code_of_an_agent_runs(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("import clvlab as cl\n\nraise RuntimeError\n\n\n@cl.strategy\ndef agent(ticks):\n    return ticks\n")

    with pytest.raises(UnknownPackError, match="no-such-pack"):
        cl.backtest("no-such-pack", f"{path}:agent")
    with pytest.raises(UnknownAgentError, match="does not run"):
        cl.backtest("starter", f"{path}:agent")


def test_a_class_is_no_entry_of_a_competition(lab):
    with pytest.raises(AgentError, match="FailingAgent"):
        lab.compete("starter", ["baseline", FailingAgent])


def test_the_card_of_a_folder_says_what_asked_for_the_run(both):
    assert [run.verify().proof_card["run"]["kind"] for run in (both, cl.backtest("starter"))] == ["competition", "backtest"]


def test_a_policy_of_another_type_is_refused():
    with pytest.raises(PolicyError, match=r"\{\}"):
        cl.backtest("starter", policy={})


def test_ids_of_runs_are_for_a_laboratory(lab):
    run_id = lab.backtest("starter", fixtures=ONE).run_id

    assert len(lab.compare([run_id, lab.backtest("starter", "cumulative-drift", fixtures=ONE)]).names) == 2
    with pytest.raises(UnsupportedError, match=r"open one with clvlab.Lab"):
        cl.compare([run_id, run_id])


def test_a_result_answers_by_name_as_its_tear_sheet_does():
    bt = cl.backtest("season", "cumulative-drift")
    sheet = bt.tear_sheet()

    assert (bt.mean_clv, bt.interval, bt.edge) == (sheet.clv.mean, (sheet.clv.low, sheet.clv.high), sheet.edge.mean)
    assert bt.roi == sheet.settled.roi.mean
    assert bt.verdict.startswith("Loses at its prices")


def test_a_result_without_a_figure_answers_none():
    nothing = cl.backtest("starter", "cumulative-drift", window=cl.Window(market_allowlist=("none",)))
    one = cl.backtest("starter", "cumulative-drift", fixtures=[90000005])

    assert (nothing.mean_clv, nothing.interval, nothing.edge) == (None, None, None)
    assert nothing.verdict == "Nothing to judge: no decision was scored."
    assert one.mean_clv is not None
    assert one.interval is None


def test_figures_of_several_agents_ask_for_one():
    both = cl.Lab().compete("starter", ["baseline", "cumulative-drift"])

    with pytest.raises(UnknownAgentError, match="has 2 agents"):
        both.mean_clv  # noqa: B018  # the figure is what raises


def test_the_help_of_the_package_names_every_verb_in_one_screen():
    lines = cl.__doc__.splitlines()
    named = {word for line in lines for word in re.findall(r"\w+", line)}

    assert set(cl.__all__) <= named
    assert len(lines) <= 24
