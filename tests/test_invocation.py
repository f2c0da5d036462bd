"""How clvlab is called where a hint is read."""

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from clvlab.base.invocation import command
from clvlab.cli import app

ROOT = Path(__file__).parents[1]
MODULES = [path for folder in ("clvlab", "service") for path in (ROOT / folder).rglob("*.py")]
MODULE = (sys.executable, "-m", "clvlab")
SCRIPTS = Path(sys.executable).parent
NAMED_ONLY = {  # what is read elsewhere too, where nobody knows how clvlab is called: evidence, verdicts, answers over HTTP
    "clvlab/arena/jobs.py": "a service's log",
    "clvlab/sources/devfeeds/betfair.py": "the name in a certificate",
    "clvlab/sources/capture/source.py": "a pack's manifest, which is hashed",
    "clvlab/proof/clv_verify.py": "a verdict, the same wherever it is reached",
    "clvlab/log/publication.py": "also an answer of a service to its callers",
    "clvlab/log/standing.py": "a verdict, the same wherever it is reached",
    "clvlab/arena/installation.py": "what an extra gives",
    "clvlab/report/share.py": "a picture that is sent to others",
    "service/clvlab_service/settings.py": "documentation of settings",
    "service/clvlab_service/server.py": "the title of an application",
}


def said(folder, path, program, *words, **environment):
    call, known = [*map(str, program), *words], {"PATH": str(path), **environment}
    done = subprocess.run(call, cwd=folder, env=known, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def hinted(folder, path, *options):
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from clvlab.base.invocation import command; print(command('demo'))"
    return said(folder, path, (sys.executable, *options, "-c", code)).strip()


def next_command(text):
    return re.search("Next: (.*)", text)[1]


def test_an_environment_that_is_not_on_the_path_is_named_by_its_place(tmp_path):
    hint = next_command(said(tmp_path, "/usr/bin:/bin", MODULE, "agents", "list"))

    assert shlex.split(hint) == [str(SCRIPTS / "clvlab"), "agents", "show", "NAME"]
    assert "Parameters" in said(tmp_path, "/usr/bin:/bin", shlex.split(hint.replace("NAME", "baseline")))


def test_an_environment_below_the_folder_is_named_from_there():
    hint = next_command(said(SCRIPTS.parent, "/usr/bin:/bin", (f"{SCRIPTS.name}/clvlab",), "agents", "list"))

    assert hint == f"{SCRIPTS.name}/clvlab agents show NAME"


def test_a_program_in_this_very_folder_is_named_so_that_a_shell_finds_it():
    assert next_command(said(SCRIPTS, "/usr/bin:/bin", ("./clvlab",), "agents", "list")) == "./clvlab agents show NAME"


def test_an_environment_on_the_path_needs_no_place(tmp_path):
    assert hinted(tmp_path, f"{SCRIPTS}:/usr/bin:/bin") == "clvlab demo"


def test_a_link_on_the_path_to_the_program_counts_as_the_program(tmp_path):
    (tmp_path / "clvlab").symlink_to(SCRIPTS / "clvlab")

    assert hinted(tmp_path, f"{tmp_path}:/usr/bin:/bin") == "clvlab demo"


def test_a_program_of_the_same_name_in_another_environment_is_not_this_one(tmp_path):
    other = tmp_path / "clvlab"
    other.write_text("#!/bin/sh\necho another\n")
    other.chmod(0o755)

    assert shlex.split(hinted(tmp_path, f"{tmp_path}:/usr/bin:/bin")) == [str(SCRIPTS / "clvlab"), "demo"]


def test_without_an_installation_the_module_is_called(tmp_path):
    assert shlex.split(hinted(tmp_path, "/usr/bin:/bin", "-S")) == [sys.executable, "-m", "clvlab", "demo"]


@pytest.mark.parametrize("path", ["starter", "--out"])
def test_a_path_is_taken_for_no_name(path):
    assert shlex.split(command("packs", "show", Path(path)))[-1] == f"./{path}"
    assert shlex.split(command("packs", "show", Path("runs") / path))[-1] == f"runs/{path}"


@pytest.mark.parametrize("word", ["my runs/run_1", "Wettbüro", "a'b", "$HOME", "x;y", "*", "[bold]", "-"])
def test_words_reach_a_shell_as_they_are(word):
    words = command("show", word).split(" show ", 1)[1]

    assert subprocess.run(["sh", "-c", f"printf %s {words}"], capture_output=True, text=True, check=True).stdout == word


def test_a_mistake_is_answered_with_a_command_that_can_be_typed(tmp_path):
    answer = said(tmp_path, "/usr/bin:/bin", MODULE, "verify")
    (hint,) = re.findall("Try '(.*)' for help", answer)

    assert "Recompute the proof" in said(tmp_path, "/usr/bin:/bin", shlex.split(hint))


def test_a_mistake_before_any_command_is_answered_so_too(tmp_path):
    (hint,) = re.findall("Try '(.*)' for help", said(tmp_path, "/usr/bin:/bin", MODULE, "--bogus"))

    assert shlex.split(hint)[0] == str(SCRIPTS / "clvlab")


def test_in_a_folder_that_was_removed_commands_still_work(tmp_path):
    (tmp_path / "gone").mkdir()
    inside = f'cd "{tmp_path}/gone" && rmdir "{tmp_path}/gone" && exec "{sys.executable}" -P -m clvlab agents list'

    assert "agents show NAME" in next_command(said(tmp_path, "/usr/bin:/bin", ("sh", "-c", inside)))


def test_names_are_completed_for_the_program_wherever_it_stands(tmp_path):
    asked = {"_CLVLAB_COMPLETE": "complete_bash", "COMP_WORDS": "clvlab ver", "COMP_CWORD": "1"}

    assert said(tmp_path, "/usr/bin:/bin", (SCRIPTS / "clvlab",), **asked).split() == ["verify", "verifier", "version"]


def sentences(path):
    """Yield the texts of a module, those of f-strings as far as they are written out; of its documentation what is help."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    if path.parent.name == "cli":
        documentation = {id(node.value) for node in tree.body if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value


def test_every_hint_asks_how_clvlab_is_called():
    called = re.compile(rf"\bclvlab ({'|'.join(get_command(app).commands)})\b")
    found = {path.relative_to(ROOT).as_posix() for path in MODULES if any(called.search(text) for text in sentences(path))}

    assert found == set(NAMED_ONLY)


def hints(path):
    """Yield the words of each hint that a module makes, None for those that are known only when it runs."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("command", "show_next") and node.args:
            yield [word.value if isinstance(word, ast.Constant) else None for word in node.args]


def test_no_hint_lacks_what_its_command_must_have():
    known = [(path.name, words) for path in MODULES for words in hints(path) if isinstance(words[0], str)]

    for name, words in known:
        called = get_command(app)
        while hasattr(called, "commands"):
            called, words = called.commands[words[0]], words[1:]
        needed = [option for option in called.params if option.required and option.param_type_name == "option"]
        assert [option.name for option in needed if not {*option.opts} & {*words}] == [], name
        needed = [argument for argument in called.params if argument.required and argument.param_type_name == "argument"]
        assert len(words) >= len(needed), name
    assert len(known) > 15
