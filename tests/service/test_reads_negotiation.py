"""Which form an answer has that can be had as JSON or as Arrow (RFC 9110, section 12.5.1)."""

import pytest

from tests.service.serving import assert_problem

ARROW, JSON = "application/vnd.apache.arrow.stream", "application/json"
PATH = "/replay-packs/starter/fixtures"


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        (JSON, JSON),
        (ARROW, ARROW),
        (ARROW.upper(), ARROW),
        (f"{ARROW}, */*", ARROW),
        (f"{ARROW}, {JSON}", ARROW),
        (f"{JSON}, {ARROW};q=1.0", ARROW),
        (f"{JSON};q=0.5, {ARROW};q=0.5", ARROW),
        (f"{JSON}, {ARROW};q=0.9", JSON),
        (f"{ARROW};q=0.9, */*", JSON),
        (f"{ARROW};q=0.9, application/*;q=0.8, */*", ARROW),
        (f"{ARROW} ; Q=0.001, {JSON};q=0", ARROW),
        (f"{ARROW};q=0, {JSON};q=0.001", JSON),
        (f"{ARROW};q=0, */*", JSON),
        (f"{JSON};q=0, */*;q=0.1", ARROW),
        (f"text/plain, {JSON};q=nan, {JSON};q=0.3", JSON),
        (",,;", JSON),
    ],
)
def test_arrow_is_given_where_it_is_named_with_a_quality_at_least_that_of_json(api, accept, given):
    response = api.nobody.get(PATH, headers={"Accept": accept})

    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == given
    assert "accept" in [name.strip().lower() for name in response.headers["vary"].split(",")]


@pytest.mark.parametrize("accept", ["text/plain", f"{JSON};q=0", "*/*;q=0", f"{ARROW};q=0, {JSON};q=0, text/*"])
def test_what_can_not_be_given_is_406(api, accept):
    response = api.nobody.get(PATH, headers={"Accept": accept})

    assert ARROW in assert_problem(response, 406)["detail"]
    assert "accept" in response.headers["vary"].lower()


@pytest.mark.parametrize("accept", [JSON, ARROW])
def test_each_form_has_a_tag_of_its_own_and_is_not_sent_again(api, accept):
    response = api.nobody.get(PATH, headers={"Accept": accept})
    other = api.nobody.get(PATH, headers={"Accept": JSON if accept == ARROW else ARROW})
    again = api.nobody.get(PATH, headers={"Accept": accept, "If-None-Match": response.headers["etag"]})

    assert response.headers["etag"] != other.headers["etag"]
    assert again.status_code == 304
    assert "accept" in again.headers["vary"].lower()


def test_both_forms_stand_in_the_document(api):
    paths = api.get("/openapi.json")["paths"]

    for path in ("/replay-packs/{pack_id}/fixtures", "/runs/{run_id}/decisions"):
        responses = paths[path]["get"]["responses"]
        assert set(responses["200"]["content"]) == {JSON, ARROW}
        assert "406" in responses
