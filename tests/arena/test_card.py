import pytest

from clvlab.agents.registry import TEMPLATES, TRANSCRIBED
from clvlab.law.schema import Causality
from clvlab.runs.card import card_causality


@pytest.mark.parametrize("strategy", TEMPLATES)
def test_a_template_that_repeats_is_shown_as_a_transcript_and_one_that_computes_as_a_template(strategy):
    agent = {"strategy": strategy, "causality": "template"}

    assert card_causality(agent) == ("transcript" if strategy in TRANSCRIBED else "template")


@pytest.mark.parametrize("causality", [one for one in Causality if one != Causality.TEMPLATE])
def test_an_agent_of_ones_own_that_is_called_as_a_template_is_shown_as_it_was_sealed(causality):
    assert card_causality({"strategy": "bets", "causality": causality}) == causality
