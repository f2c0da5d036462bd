import pytest

from clvlab.store.labels import labels


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([("did:a:x", "n"), ("did:b:x", "n"), ("did:c:x", "n")], ["n", "n@x", "n@:x"]),
        ([("did:a:x", "n (anonymous)"), ("anonymous", "n")], ["n (anonymous)@x", "n (anonymous)"]),
        ([("did:a:x", "n@y"), ("did:b:x", "n"), ("did:c:y", "n")], ["n@y@x", "n", "n@y"]),
        ([("did:a:x@did:z:w", "a"), ("did:z:w", "a"), ("did:z:w", "a@did:a:x")], ["a", "a@w", "a@did:a:x@w"]),
        ([("did:web:" + "l" * 40, "n"), ("did:web:" + "m" * 40, "n")], ["n", "n@" + "m" * 12]),
    ],
)
def test_labels_are_unique_and_no_name_looks_like_a_marked_one(keys, expected):
    assert labels(keys) == expected


def test_labels_stay_unique_for_owners_made_to_clash():
    keys = [("did:q", "n"), ("did:z", "a@did:a"), *((f"{'x' * n}did:z", "a@did:a") for n in range(20)), ("did:a@did:z", "a")]

    assert len(set(labels(keys))) == len(keys)


@pytest.mark.parametrize(
    "name",
    [
        "baseline (anonymous) ", "baseline\u00a0(anonymous)", "drift\uff20bob", "drift\u200b", "\u202etfird", "dri\ufb01",
        " x",
    ],
    ids=ascii,
)  # fmt: skip
def test_a_name_that_may_look_like_another_carries_its_owner(name):
    assert labels([("did:web:mallory", name)]) == [f"{name}@mallory"]
