import functools
import linecache

import pytest

import clvlab as cl
from clvlab.agents.isolation.code import code_of
from clvlab.agents.source import agent_sha256, source_sha256
from tests.agents import honest_agents as honest

# Digests of runs that are sealed: they never change.
DIGESTS = {
    "plain": "c658a95d65b34f4622fc2f4825c53dce479783554359102836cd0bdb415c5ae7",
    "decorated": "0b0910dfcd0bc28f05dfee90f39629cb17ff19392d65f24bcd7d3664e035ab8a",
    "columnar": "f1251d8cd7c7d9b0832f9a5fb7d5619bc1351c63824a18b703300113ecf52809",
    "ticking": "8ee99fbc764461bf4559befc2cca4e02e07f331a89d2b6a3207677c80646277d",
    "method": "4aa61a9ea0412711ab5ab59f7663323590f75dc60ac60869bb577ed3f5c9c52b",
    "cached": "43c18b74d52b05c461e1d52d46eff41b61e93edc843926456e8c643aad014492",
    "inherited": "52c202e8afa6aedecce63004696a6dfd7c561a73c6d1e5a4b1d616ec1b4e4af2",
    "stated": "90bc3b88bef3e3fa075fc24d6f5d50c6a6daa962597151bc0f7365cf4247eb8c",
    "nested": "b54cdbb659a72b275d9cd930d84964fbea5a69fdb1589ca71df02274327f7316",
    "shortest": "8bac17134215d551a0843fe5b3d3a66e19da38915c7a98277a6bec8048fd9b06",
    "cell": "ac21c3040933c34b3f4853c99085c2cdd796d1fd370b3aab4c391870a81b55f5",
}
CELL = "def cell(ticks):\n    # a comment\n    return ticks\n"
INNOCENT = """\
def innocent(ticks):
    return ticks.head(1)


class Innocent:
    def on_tick(self, book):
        return None

    def other(self, book):
        return book
"""


def evil(ticks):
    return ticks.tail(1)


def first(ticks):
    return ticks.unique("series", keep="first", maintain_order=True)


def evil_tick(_self, book):
    return book.back("part1")


def executed(text, filename):
    names = {"__name__": "innocent_module"}
    exec(compile(text, filename, "exec", dont_inherit=True), names)
    return names


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of a file, imported afresh."""
    (tmp_path / "innocent_module.py").write_text(INNOCENT)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "innocent_module", raising=False)
    yield __import__("innocent_module")
    __import__("sys").modules.pop("innocent_module", None)


def assert_null(code, digest=source_sha256):
    assert digest(code) is None


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("plain", honest.plain),
        ("decorated", honest.decorated.rule),
        ("columnar", honest.columnar.with_params(rise_bps=1).rule),
        ("ticking", honest.Ticking),
        ("method", honest.Ticking().on_tick),
        ("cached", honest.Cached),
        ("inherited", honest.Inherited),
        ("stated", honest.Stated),
        ("nested", honest.closing(1)),
        ("shortest", honest.shortest),
    ],
)
def test_honest_agents_keep_their_digests(name, code):
    assert source_sha256(code) == f"sha256:{DIGESTS[name]}"


def test_a_function_of_a_notebook_cell_keeps_its_digest(monkeypatch):
    monkeypatch.setitem(linecache.cache, "<cell 1>", (len(CELL), None, CELL.splitlines(keepends=True), "<cell 1>"))

    assert source_sha256(executed(CELL, "<cell 1>")["cell"]) == f"sha256:{DIGESTS['cell']}"


def test_code_without_a_file_has_a_digest_of_its_bytecode():
    one, same, other = (executed(f"def cell(ticks):\n    return ticks.head({n})", "<gone>")["cell"] for n in (1, 1, 2))

    assert source_sha256(one) == source_sha256(same) != source_sha256(other)


def test_a_wrapper_has_its_own_digest_and_not_that_of_what_it_says_to_wrap(module):
    expected = source_sha256(evil)
    try:
        functools.update_wrapper(evil, module.innocent)

        assert source_sha256(evil) == expected != source_sha256(module.innocent)
    finally:
        del evil.__wrapped__


def test_code_that_was_put_in_a_functions_place_has_its_own_digest(module):
    module.innocent.__code__ = evil.__code__

    assert source_sha256(module.innocent) == source_sha256(evil)


def test_code_that_says_to_come_from_another_place_has_none(module):
    own = module.innocent.__code__

    module.innocent.__code__ = evil.__code__.replace(
        co_filename=own.co_filename, co_firstlineno=own.co_firstlineno, co_name=own.co_name, co_qualname=own.co_qualname
    )

    assert_null(module.innocent)


@pytest.mark.parametrize("changed", ["ticks.head(1)  ", "ticks.head(2)", "ticks.head(1.0)", "ticks.head(True)", "ticks.head("])
def test_a_line_kept_in_memory_that_says_something_else_is_not_sealed(module, changed):
    text = INNOCENT.replace("ticks.head(1)", changed)
    file = module.innocent.__code__.co_filename
    entry = (len(text), None, text.splitlines(keepends=True), file)
    linecache.cache[file] = entry
    try:
        if changed.endswith(" "):  # the same code: what differs is how it is set
            assert source_sha256(module.innocent) is not None
        else:
            assert_null(module.innocent)
    finally:
        linecache.cache.pop(file)


def test_a_file_that_changed_since_it_was_imported_is_not_sealed(module, tmp_path):
    (tmp_path / "innocent_module.py").write_text(INNOCENT.replace("head(1)", "tail(11)").replace("None", "book"))

    assert_null(module.innocent)
    assert_null(module.Innocent)


def test_a_lambda_whose_line_looks_like_no_definition_has_not_the_digest_of_the_function_above():
    text = "def innocent(ticks):\n    return ticks\n\nevil = lambda*all: all[-1]\n"
    linecache.cache["<lambda>"] = (len(text), None, text.splitlines(keepends=True), "<lambda>")
    try:
        assert_null(executed(text, "<lambda>")["evil"])
    finally:
        linecache.cache.pop("<lambda>")


@pytest.mark.parametrize(
    "patch",
    [
        lambda own: setattr(own, "on_tick", evil_tick),
        lambda own: setattr(own, "on_tick", own.other),
        lambda own: setattr(own, "on_tick", functools.partial(evil_tick, None)),
        lambda own: setattr(own, "on_tick", property(evil_tick)),
        lambda own: setattr(own, "on_tick", staticmethod(evil_tick)),
        lambda own: setattr(own, "decide", evil_tick),
        lambda own: setattr(own, "decide", functools.partial(evil_tick, None)),
        lambda own: setattr(own, "__getattribute__", evil_tick),
        lambda own: setattr(own.on_tick, "__code__", evil_tick.__code__),
        lambda own: delattr(own, "on_tick"),
    ],
)
def test_a_class_that_was_patched_has_no_digest(module, patch):
    patch(module.Innocent)

    assert_null(module.Innocent)


@pytest.mark.parametrize("namespace", [{"on_tick": evil_tick}, {"on_tick": evil_tick, "other": evil_tick}, {}])
def test_a_class_that_says_to_be_another_has_no_digest(module, namespace):
    named = {"__module__": module.Innocent.__module__, "__qualname__": "Innocent"}

    assert_null(type("Innocent", (), namespace | named))


def test_a_class_of_other_bases_that_says_to_be_one_without_functions_has_no_digest():
    class Evil(cl.TickAgent):
        def on_tick(self, book):
            return book.back("part2")

    named = {"__module__": honest.__name__, "__qualname__": "Inherited", "version": "2"}
    assert_null(type("Inherited", (Evil,), named))


def test_a_dataclass_whose_generated_function_was_replaced_has_no_digest(monkeypatch):
    assert source_sha256(honest.Stated) is not None

    monkeypatch.setattr(honest.Stated, "__init__", evil_tick)

    assert_null(honest.Stated)


def test_an_agent_with_a_function_in_place_of_its_classes_has_no_digest():
    agent = honest.Ticking()
    assert agent_sha256(agent) == source_sha256(honest.Ticking)

    agent.on_tick = lambda book: book.back("part2")

    assert_null(agent, agent_sha256)
    assert agent.identity.source_sha256 is None
    with pytest.warns(UserWarning, match="source of Ticking is sealed as null"):
        assert code_of(agent).source_sha256 is None


def test_an_agent_whose_source_is_sealed_as_null_still_runs_and_is_verified(module):
    own = module.innocent.__code__
    module.innocent.__code__ = first.__code__.replace(co_filename=own.co_filename, co_firstlineno=own.co_firstlineno)
    with pytest.warns(UserWarning, match="source of innocent is sealed as null"):
        result = cl.backtest("starter", module.innocent)

    assert result.run.verify().passed


def test_two_agents_without_a_digest_are_told_apart_by_their_pickles():
    one, other = honest.Ticking(1), honest.Ticking(2)
    for agent in (one, other):
        agent.on_tick = evil_tick

    with pytest.warns(UserWarning, match="sealed as null"):
        names = {code_of(one).name, code_of(other).name}

    assert len(names) == 2
