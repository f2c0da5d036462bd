"""Names of one team, of the package and of a file of the user's."""

import re

import pytest

from clvlab.errors import ArgumentError, SourceError
from clvlab.packs.matching.names import NO_ALIASES, folded, likeness, read_aliases, usual_aliases, words_of


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "team-aliases.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_every_usual_name_is_one_team_with_the_others_of_its_list():
    usual = usual_aliases()

    assert len(usual.teams) > 20
    for team in usual.teams:
        assert {usual.names_of(name) for name in team} == {frozenset(team)}
        assert {likeness(team[0], name) for name in team} == {1.0}
        assert all(folded(name) == name for name in team)


def test_a_file_says_more_names_of_a_team(written):
    own = read_aliases(written('teams = [["Žlutí", "Zluti", "FC Yellow"], ["Зенит", "Zenit"]]'))

    assert own.teams == (("zluti", "fc yellow"), ("зенит", "zenit"))
    assert own.likeness("FC YELLOW", "žlutí") == own.likeness("Zenit", "ЗЕНИТ") == 1.0
    assert own.likeness("FC Yellow", "Zenit") == likeness("FC Yellow", "Zenit") < 0.5
    assert own.names_of("Oak") == {"oak"}
    assert read_aliases(None) is NO_ALIASES


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("teams = [", "can't be read from '.*team-aliases.toml'"),
        (b"teams = [['\xff', 'b']]", "can't be read from '.*team-aliases.toml'"),
        ("", r"nothing else, not \{\}"),
        ("teams = 'Wolves'", "nothing else, not {'teams': 'Wolves'}"),
        ("teams = []\nclubs = []", "nothing else, not {'teams': \\[\\], 'clubs'"),
        ("teams = [['Wolves']]", r"two names or more, .* not \['Wolves'\]"),
        ("teams = ['Wolves']", "two names or more, .* not 'Wolves'"),
        ("teams = [['Wolves', 7]]", r"two names or more, .* not \['Wolves', 7\]"),
        ("teams = [['Wolves', '- !']]", r"two names or more, .* not \['Wolves', '- !'\]"),
        ("teams = [['A', 'B'], ['C', 'á']]", r"'á' is of two teams, \['A', 'B'\] and \['C', 'á'\]"),
    ],
)
def test_a_file_that_says_no_teams_is_refused_by_what_it_says(written, text, said):
    with pytest.raises(SourceError, match=said):
        read_aliases(written(text))


def test_a_file_that_is_not_there_or_no_path_is_refused_by_name(tmp_path):
    with pytest.raises(SourceError, match=re.escape(str(tmp_path / "none.toml"))):
        read_aliases(tmp_path / "none.toml")
    with pytest.raises(ArgumentError, match="team_aliases is the path of a file, not 7"):
        read_aliases(7)


def test_one_folding_keeps_letters_of_any_script_and_joins_compare_latin_words():
    assert folded("Зенит & Brøndby") == "зенит brøndby".replace("ø", "o")
    assert words_of("Зенит & Brøndby") == ("and", "brondby")
