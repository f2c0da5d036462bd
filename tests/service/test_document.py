"""The OpenAPI document: what it says of answers, problems and parameters is what the service does."""

import re

import pytest
from clvlab_service.app import create_app
from clvlab_service.errors import PLAIN, place
from clvlab_service.reference import problems_reference
from clvlab_service.settings import Settings
from pydantic import TypeAdapter

from clvlab.agents.registry import TEMPLATES
from clvlab.api.competitions import PreflightCheck
from tests.factories import ERRORS
from tests.service.serving import BACKTEST, CONFIG, DEPLOY, assert_problem, make_entry

URN = "urn:clvlab:problem:"
PARAMETERS = {
    "baseline": "BaselineParams",
    "cumulative-drift": "CumulativeDriftParams",
    "sharp-momentum-v2": "SharpMomentumV2Params",
    "llm": "LlmParams",
    "bets": "BetsParams",
}


@pytest.fixture(scope="module")
def api(api_in_memory):
    return api_in_memory


@pytest.fixture(scope="module")
def document():
    return create_app(Settings(log_level="error")).openapi()


def answers(document):
    """Operation and JSON content of every answer of success."""
    for methods in document["paths"].values():
        for operation in methods.values():
            for status, response in operation["responses"].items():
                if int(status) < 300 and "application/json" in response.get("content", ()):
                    yield operation["operationId"], response["content"]["application/json"]


def validator(schema, document):
    from jsonschema import Draft202012Validator  # its grammars take a second of everybody's collection

    return Draft202012Validator(schema | {"components": document["components"]})


def check(value, schema, document):
    validator(schema, document).validate(value)


def texts(value):
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


def test_every_json_answer_has_an_example_that_its_schema_allows(document):
    for operation, content in answers(document):
        check(content["example"], content["schema"], document)
        assert content["example"], operation
        assert "..." not in texts(content["example"]), f"{operation}: name the field in clvlab_service/examples.py"


def test_an_operation_is_titled_by_the_first_sentence_of_its_description(document):
    titles = {op["operationId"]: op["summary"] for methods in document["paths"].values() for op in methods.values()}

    assert titles["getEvidence"] == "Download `events.jsonl`"
    assert titles["uploadPack"] == "Upload a pack as an archive (zip, tar or tar.gz), or with `source` a file to import"


def test_examples_tell_one_story(document):
    examples = {operation: content["example"] for operation, content in answers(document)}

    assert examples["getRun"]["run"]["run_id"] == examples["verifyRun"]["run_id"] == examples["inspectDecision"]["run_id"]
    assert examples["verifyRun"]["evidence_hash"] == examples["verifyRun"]["recomputed_evidence_hash"]
    metrics = examples["getRun"]["metrics"]
    assert metrics["total_clv_bps"] / metrics["valid_count"] == metrics["avg_clv_bps"]
    assert examples["getRun"]["checks"]["anchor"] == "not_applicable"


def test_examples_of_requests_are_allowed_by_their_schemas(document):
    for methods in document["paths"].values():
        for operation in methods.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                named = [example["value"] for example in content.get("examples", {}).values()]
                for example in [*named, *content["schema"].get("examples", ())]:
                    check(example, content["schema"], document)


def table():
    """Status and type of every row of the table of problems."""
    return re.findall(r"^\| (\d+) \| `([^`]+)` \|", problems_reference(), re.MULTILINE)


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("*/*", "application/x-ndjson"),
        ("application/octet-stream", "application/octet-stream"),
        ("text/html, Application/Octet-Stream;q=0.5", "application/octet-stream"),
        ("application/octet-stream;q=0, */*", "application/x-ndjson"),
        ("application/octet-stream; q=0.0", "application/x-ndjson"),
    ],
)
def test_a_sealed_file_is_of_the_type_that_accept_names_and_the_same_bytes(api, accept, media_type):
    path = f"/runs/{api.post('/backtests', BACKTEST)['run_id']}/evidence"
    response = api.nobody.get(path, headers={"Accept": accept})

    assert response.headers["content-type"] == media_type
    assert response.headers["vary"] == "Accept, Accept-Encoding"
    assert response.content == api.nobody.get(path).content


def test_the_table_of_problems_and_the_document_name_the_same_types(document):
    described = document["components"]["schemas"]["Problem"]["properties"]["type"]["description"]

    assert {kind for _, kind in table()} == {kind.removeprefix(URN) for kind in re.findall(r"`([a-z:-]+)`", described)} - {""}
    assert len(table()) == len(set(table())) > len(PLAIN)


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "kind"),
    [
        ("GET", "/nothing", {}, 404, "about:blank"),
        ("DELETE", "/leaderboard", {}, 405, "about:blank"),
        ("POST", "/backtests", {"content": b"{", "headers": {"Content-Type": "application/json"}}, 400, "about:blank"),
        ("POST", "/backtests", {"content": b"{}"}, 415, "about:blank"),
        ("POST", "/backtests", {"json": {"text": "x" * 300_000}}, 413, "about:blank"),
        ("POST", "/backtests", {"json": []}, 422, "invalid-request"),
        ("POST", "/backtests", {"json": BACKTEST | {"end_rule": "never"}}, 400, "window"),
        ("POST", "/backtests", {"json": BACKTEST | {"fixture_id": 5}}, 422, "unknown-fixture"),
        ("GET", "/runs?cursor=garbage", {}, 422, "page"),
        ("GET", "/agents/instances/i", {}, 401, "invalid-token"),
    ],
)
def test_problems_are_of_a_type_in_the_table(api, method, path, options, status, kind):
    problem = assert_problem(api.nobody.request(method, path, **options), status)

    assert problem["type"].removeprefix("urn:clvlab:problem:") == kind
    assert (str(status), kind) in table()


def test_a_refused_entry_and_a_refused_binding_have_types_of_their_own(api):
    entry = api.alice.post(f"/competitions/{api.competition(agents=())}/agents", json=make_entry("nobody-wrote-this"))
    binding = api.alice.post("/competitions", json=CONFIG | {"pack_id": "gone"})

    assert [assert_problem(response, 400)["type"] for response in (entry, binding)] == [
        "urn:clvlab:problem:entry", "urn:clvlab:problem:binding"
    ]  # fmt: skip


def test_a_class_without_a_row_of_its_own_is_of_the_type_of_its_nearest_base():
    for error in ERRORS:
        status, kind = place(error)
        assert (str(status.value), kind.rpartition(":")[2]) in table(), error
    assert "lease-lost" not in {kind for _, kind in table()}


def test_faults_and_checks_of_a_problem_are_as_the_document_types_them(api, document):
    schemas = document["components"]["schemas"]
    faulty = assert_problem(api.nobody.post("/backtests?x=1", json=[]), 422)
    refused = assert_problem(api.alice.post("/agents/deploy", json=DEPLOY | {"stake": -5, "sizing": "x"}), 422)

    for problem in (faulty, refused):
        check(problem, {"$ref": "#/components/schemas/Problem"}, document)
    TypeAdapter(list[PreflightCheck]).validate_python(refused["checks"])
    assert schemas["PreflightCheck"]["required"] == ["name", "ok", "message"]
    assert set(schemas["RequestFault"]["required"]) == set(faulty["errors"][0])


@pytest.mark.parametrize(("strategy", "component"), PARAMETERS.items())
def test_parameters_of_every_template_stand_in_the_document_with_their_bounds(document, strategy, component):
    model, schema = TEMPLATES[strategy][0], document["components"]["schemas"][component]

    assert set(schema["properties"]) == set(model.model_fields)
    for name, of in schema["properties"].items():
        assert of["description"]
        assert of["anyOf"][0].get("default") == model().model_dump(mode="json")[name]
    check({}, schema, document)
    check({"colour": "vermilion"}, schema, document)
    assert not validator(schema, document).is_valid({"stake": 0})


def test_every_template_has_parameters_in_the_document():
    assert set(PARAMETERS) == set(TEMPLATES)


@pytest.mark.parametrize(("body", "field"), [("AgentEntry", "config"), ("DeployConfig", "params")])
def test_an_agents_configuration_names_the_parameters_of_the_templates_and_allows_any_other(document, body, field):
    schema = document["components"]["schemas"][body]["properties"][field]

    referenced = [one["$ref"].rpartition("/")[2] for one in schema["anyOf"] if "$ref" in one]
    assert referenced == list(PARAMETERS.values())
    for value in ({}, {"colour": "vermilion", "stake": "many"}):
        check(value, schema, document)
    assert not validator(schema, document).is_valid([])
