"""The OpenAPI document: what it says of answers, problems and parameters is what the service does."""

import re
from urllib.parse import quote

import pytest
from clvlab_service.app import create_app
from clvlab_service.errors import PLAIN, place
from clvlab_service.reference import problems_reference
from clvlab_service.settings import Settings
from pydantic import TypeAdapter
from starlette.testclient import TestClient

from clvlab.agents.registry import TEMPLATES
from clvlab.api.answer import Action, AnchorStatus, CloseKind, EndRule, ModeLabel, ScoreReason, SourceMode
from clvlab.api.competitions import EventKind, PreflightCheck
from clvlab.arena import events
from clvlab.law import schema as law
from clvlab.log.note import Signer, write_signer
from clvlab.proof import anchor
from tests.factories import ERRORS
from tests.service.serving import BACKTEST, CONFIG, DEPLOY, assert_problem, make_entry, make_settings
from tests.service.serving import api as serve
from tests.service.test_contract import checked
from tests.service.test_uploads import ODDS

UNSET = {"getCheckpoint", "getTilesCheckpoint", "listUploadedPacks"}  # this service has no key of a log and takes no uploads
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
    assert titles["uploadPack"] == "Upload a pack as an archive (zip, tar or tar.gz), or a file to import with `source`"


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


@pytest.mark.parametrize(
    ("described", "values"),
    [
        (Action, law.Action),
        (AnchorStatus, anchor.AnchorStatus),
        (CloseKind, law.CloseKind),
        (EndRule, law.EndRule),
        (EventKind, events.EventKind),
        (ModeLabel, law.MODE_LABELS.values()),
        (ScoreReason, law.Reason),
        (SourceMode, law.SourceMode),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_closed_set_has_in_the_document_the_values_that_the_law_has(document, described, values):
    assert document["components"]["schemas"][described.__name__]["enum"] == list(values)


@pytest.mark.parametrize(
    ("body", "field", "values"),
    [
        ("BacktestRunRequest", "end_rule", ["pre_match", "fixed_duration", "manual_stop"]),
        ("DeployConfig", "end_rule", ["pre_match", "fixed_duration", "manual_stop"]),
        ("CompetitionConfig", "source_mode", ["replay", "live"]),
        ("DeployConfig", "source_mode", ["replay", "live"]),
    ],
)
def test_a_body_lists_the_values_that_the_interface_lists(document, body, field, values):
    schema = document["components"]["schemas"][body]["properties"][field]

    assert schema.get("anyOf", [schema])[0]["enum"] == values


def operations(document):
    return [(path, one) for path, methods in document["paths"].items() for one in methods.values()]


def links(document, operation, status):
    found = next(one for _, one in operations(document) if one["operationId"] == operation)
    return found["responses"][status].get("links", {})


def of_examples(operation):
    """The parameters of an operation's path, if each has an example; no answer has to lead to such a path."""
    schemas = {one["name"]: one["schema"] for one in operation.get("parameters", ()) if one["in"] == "path"}
    examples = {name: schema["examples"][0] for name, schema in schemas.items() if "examples" in schema}
    return examples if len(examples) == len(schemas) else {}


def test_every_operation_with_an_id_is_linked_from_another_one(document):
    linked = {
        name for _, one in operations(document) for answer in one["responses"].values() for name in answer.get("links", ())
    }

    assert {one["operationId"] for path, one in operations(document) if "{" in path and not of_examples(one)} <= linked


@pytest.mark.parametrize(
    ("operation", "status", "expected"),
    [
        ("createCompetition", "201", {"getCompetition", "registerAgent", "startCompetition", "listCompetitionEvents"}),
        ("registerAgent", "201", {"startCompetition", "withdrawAgent"}),
        ("startCompetition", "200", {"getRun", "verifyRun", "getEvidence", "completeCompetition"}),
        ("runBacktest", "201", {"getBacktest", "getTearSheet", "getRun", "getEvidence", "cancelBacktest"}),
        ("deployAgent", "201", {"getInstance", "cancelInstance", "deleteInstance", "listRuntimeEvents", "getProgress"}),
        ("uploadPack", "202", {"getUpload", "cancelUpload"}),
        ("listDecisions", "200", {"inspectDecision"}),
        ("listStrategies", "200", {"getStrategy"}),
    ],
)
def test_an_answer_links_to_what_can_be_done_next(document, operation, status, expected):
    assert expected <= set(links(document, operation, status))


def upload(served, pack_id, **headers):
    query = {"pack_id": pack_id, "source": "csv", "column": "book=bookmaker"}
    return served.alice.post("/me/packs", content=ODDS, params=query, headers=headers)


class Walker:
    """A program that knows the document only: it sends its examples, and follows the links of each answer once."""

    def __init__(self, served, document):
        self.served, self.found, self.operations = served, {}, {}
        for path, methods in document["paths"].items():
            self.operations |= {one["operationId"]: (method, path, one) for method, one in methods.items()}

    def walk(self):
        waiting = [(name, {}, None) for name, (_, path, _) in self.operations.items() if "{" not in path]
        own = {name: examples for name, (_, _, one) in self.operations.items() if (examples := of_examples(one))}
        waiting += [(name, examples, None) for name, examples in own.items()]
        while waiting:
            waiting.sort(key=lambda step: (step[0] in own, ("get", "post", "delete").index(self.operations[step[0]][0])))
            name, parameters, body = waiting.pop(0)
            if name in self.found:
                continue
            answer = self.send(name, parameters, body)
            declared = self.operations[name][2]["responses"]
            assert str(answer.status_code) in declared, (name, answer.text[:300])
            if answer.status_code < 300 or answer.status_code == 409:
                self.found[name] = answer.status_code
            for target, link in declared[str(answer.status_code)].get("links", {}).items():
                values = {key: self.value(at, answer, parameters) for key, at in link["parameters"].items()}
                if None not in values.values():
                    waiting.append((target, values, link.get("requestBody")))
        return self.found

    def send(self, name, parameters, body):
        method, path, one = self.operations[name]
        if name == "uploadPack":
            return upload(self.served, "odds", Prefer="respond-async")
        content = one.get("requestBody", {}).get("content", {}).get("application/json", {})
        examples = [*content.get("schema", {}).get("examples", ())]
        examples += [named["value"] for named in content.get("examples", {}).values()]
        address = re.sub(r"{(\w+)}", lambda found: quote(str(parameters[found[1]]), safe=""), path)
        return self.served.alice.request(method, address, json=body or next(iter(examples), None))

    def value(self, expression, answer, parameters):
        origin, _, place = expression.partition("#")
        if origin != "$response.body":
            return parameters[origin.rpartition(".")[2]]
        value = answer.json()
        for step in place.split("/")[1:]:
            parts = {str(at): one for at, one in enumerate(value)} if isinstance(value, list) else value or {}
            value = parts.get(step)
        return value


def test_examples_and_links_alone_lead_to_every_operation(keys, document, tmp_path):
    write_signer(Signer.new("log.example"), tmp_path / "log.key")
    with serve(keys, uploads=tmp_path, log_key_file=tmp_path / "log.key") as served:
        assert upload(served, "kept").status_code == 201
        found = Walker(served, document).walk()

    of_the_operator = {"listHeldFixtures"}  # only a command holds packs back
    assert {one["operationId"] for path, one in operations(document) if "{" in path} - of_the_operator <= set(found)
    assert (found["createCompetition"], found["deployAgent"], found["uploadPack"]) == (201, 201, 202)


def test_short_sequences_of_linked_calls_get_declared_answers_only(api, tmp_path):
    api.started()

    done = checked(api, tmp_path, "--phases", "stateful", "--max-examples", "3", "--max-time", "4")

    assert "Stateful" in done.stdout


def test_links_of_an_upload_lead_to_no_run_and_not_into_the_catalog(document):
    for status in ("200", "201", "202"):
        assert not {"getRun", "getReplayPack"} & set(links(document, "uploadPack", status))


def test_every_link_fills_the_path_of_its_operation_from_fields_and_parameters_that_exist(document):
    paths = {one["operationId"]: path for path, one in operations(document)}
    for path, one in operations(document):
        for answer in one["responses"].values():
            for name, link in answer.get("links", {}).items():
                assert link["operationId"] == name
                assert set(link["parameters"]) == set(re.findall(r"{(\w+)}", paths[name]))
                for expression in link["parameters"].values():
                    origin, _, place = expression.partition("#")
                    if origin == "$response.body":
                        content = answer["content"]["application/json"]
                        assert has(content["schema"], place.split("/")[1:], document), (name, expression)
                    else:
                        assert f"{{{origin.removeprefix('$request.path.')}}}" in path


def has(schema, place, document):
    """Whether a schema has a field at the steps of a JSON pointer."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if not place:
        return True
    inner = schema["items"] if place[0] == "0" else schema["properties"].get(place[0])
    return inner is not None and has(inner, place[1:], document)


def test_every_kind_of_problem_is_described_where_its_documentation_url_says(api):
    text = api.nobody.get("/problems", headers={"Accept": "text/html"}).text
    listed = api.get("/problems")["problems"]

    assert {(str(one["status"]), one["type"].removeprefix(URN)) for one in listed} == set(table())
    anchors = re.findall(r'<section id="([^"]+)">', text)
    assert len(anchors) == len(set(anchors)) == len(listed)
    for one in listed:
        path, _, anchor_name = one["documentation_url"].partition("#")
        assert (path, anchor_name in anchors) == ("/problems", True), one


@pytest.mark.parametrize(
    ("path", "options", "status", "expected"),
    [
        ("/nothing", {}, 404, "/problems#404"),
        ("/runs/gone", {}, 404, "/problems#unknown-run"),
        ("/runs?cursor=garbage", {}, 422, "/problems#page"),
        ("/runs?colour=red", {}, 422, "/problems#invalid-request"),
        ("/me", {}, 401, "/problems#invalid-token"),
        ("/replay-packs/starter/fixtures", {"headers": {"Accept": "text/csv"}}, 406, "/problems#406"),
    ],
)
def test_a_problem_names_its_description(api, path, options, status, expected):
    assert assert_problem(api.nobody.get(path, **options), status)["documentation_url"] == expected


def test_a_page_of_a_problem_links_to_its_description_and_behind_a_proxy_with_the_prefix(keys):
    client = TestClient(create_app(make_settings(keys)), root_path="/api")

    assert client.get("/nothing").json()["documentation_url"] == "/api/problems#404"
    assert 'href="/api/problems#404"' in client.get("/nothing", headers={"Accept": "text/html"}).text
    assert client.get("/").json()["getRun"] == "/api/runs/{run_id}"


def test_the_index_names_every_operation_that_reads_and_its_addresses_resolve(api, document):
    index = api.get("/")
    reading = {methods["get"]["operationId"]: path for path, methods in document["paths"].items() if "get" in methods}

    assert {name: index[name].partition("{?")[0] for name in reading} == reading
    assert index["getConsistency"] == "/log/consistency{?first,second}"
    for name, address in index.items():
        if "{" not in address:
            assert api.alice.get(address).status_code in (200, 404 if name in UNSET else 200), name


def test_a_browser_gets_the_page_and_a_program_the_index(api):
    page, index = (api.nobody.get("/", headers={"Accept": accept}) for accept in ("text/html", "*/*"))

    assert [one.headers["content-type"] for one in (page, index)] == ["text/html; charset=utf-8", "application/json"]
    assert all("Accept" in one.headers["vary"].split(", ") for one in (page, index))


def test_an_answer_that_an_idempotency_key_repeats_says_so(api):
    key = {"Idempotency-Key": "say-so-once"}
    deploys = [api.alice.post("/agents/deploy", json=DEPLOY, headers=key) for _ in range(2)]
    later = api.alice.post("/agents/deploy", json=DEPLOY, headers=key | {"Prefer": "respond-async"})
    body = BACKTEST | {"window_id": "say-so"}
    backtests = [api.nobody.post("/backtests", json=body, headers=key) for _ in range(2)]
    without = api.nobody.post("/backtests", json=body)

    for first, again in (deploys, backtests):
        assert (first.status_code, again.status_code) == (201, 200)
        assert (first.headers.get("idempotent-replayed"), again.headers["idempotent-replayed"]) == (None, "true")
        assert first.json() == again.json()
    assert later.headers["idempotent-replayed"] == "true"
    assert (without.status_code, without.headers.get("idempotent-replayed")) == (200, None)


def test_a_key_whose_attempt_was_cancelled_or_belongs_to_another_request_repeats_no_answer(api):
    key = {"Idempotency-Key": "other-content"}
    assert api.alice.post("/agents/deploy", json=DEPLOY, headers=key).status_code == 201
    refused = api.alice.post("/agents/deploy", json=DEPLOY | {"stake": 7}, headers=key)

    assert_problem(refused, 409)
    assert "idempotent-replayed" not in refused.headers


@pytest.mark.parametrize(
    ("path", "body", "field", "prefix"),
    [
        ("/competitions", CONFIG, "competition_id", "/competitions/"),
        ("/agents/deploy", DEPLOY, "instance_id", "/agents/instances/"),
        ("/backtests", BACKTEST | {"window_id": "created"}, "backtest_id", "/backtests/"),
    ],
)
def test_what_is_created_is_201_at_its_location(api, path, body, field, prefix):
    made = api.alice.post(path, json=body)

    assert made.status_code == 201
    assert made.headers["location"] == prefix + made.json()[field]
    assert api.alice.get(made.headers["location"]).status_code == 200


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
