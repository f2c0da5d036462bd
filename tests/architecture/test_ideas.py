"""One idea in one place: what shows that one stands in several may only get rarer."""

from tests.architecture import figures

WHERE = {
    "modules_with_one_importer": figures.closets,
    "class_names_in_several_modules": figures.namesakes,
    "dict_str_any": figures.untyped,
    **{literal: lambda literal=literal: figures.spelled(literal) for literal in figures.SPELLED},
}


def test_no_idea_stands_in_more_places():
    sentences = figures.misfits("ideas", figures.ideas(), figures.budget("ideas"))
    places = {name: where() for name, where in WHERE.items() if any(f"] {name}:" in text for text in sentences)}

    assert sentences == [], places


def test_importers_are_found_however_they_import(tmp_path, monkeypatch):
    texts = {
        "room/__init__.py": "",
        "room/at_top.py": "import room.once\nfrom room import twice\n",
        "room/inside.py": "def f():\n    from .twice import thing\n    from . import relative\n",
        "room/once.py": "class A: ...\nTEXT = 'holds max_overround'\n",
        "room/twice.py": "class A: ...\nclass B: ...\n",
        "room/relative.py": '"""Of max_overround."""\nx: "dict[str, Any]"\n',
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(figures, "PACKAGES", {"room": tmp_path / "room"})
    monkeypatch.setattr(figures, "sources", figures.sources.__wrapped__)

    assert figures.closets() == ["room.once", "room.relative"]
    assert figures.namesakes() == {"A": ["room.once", "room.twice"]}
    assert figures.untyped() == {"room.relative": 1}
    assert figures.spelled("max_overround") == ["room.once"]
