"""``service/Containerfile`` and ``service/compose.yaml``, whose commands run here without a container engine."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest
import typer
import yaml
from clvlab_service.reference import _settings
from clvlab_service.settings import Settings

from clvlab.cli import app
from clvlab.store.url import database_url
from tests.length import length
from tests.postgres import say
from tests.service.serving import BACKTEST
from tests.service.test_locked_down import needs_root_of_linux
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "service"
STATE = "/var/lib/clvlab"
BIN = Path(sys.executable).parent
IGNORED = (FOLDER / "Containerfile.dockerignore").read_text(encoding="utf-8").splitlines()
SOURCES = [line.removeprefix("!") for line in IGNORED if line.startswith("!")]


def instructions():
    """The lines of the Containerfile, each by its word."""
    text = (FOLDER / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.partition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in lines]


def the(word):
    (rest,) = [rest for found, rest in instructions() if found == word]
    return rest


def variables():
    """What ENV sets."""
    return dict(pair.split("=", 1) for pair in shlex.split(the("ENV")))


@pytest.fixture(scope="module")
def composed():
    """The composition, as an engine reads it with a password."""
    text = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
    given = {"POSTGRES_PASSWORD": "secret"}
    return yaml.safe_load(re.sub(r"\$\{(\w+)(?::?[-?]([^}]*))?\}", lambda found: given.get(found[1]) or found[2] or "", text))


@pytest.fixture(scope="module")
def known():
    """Variables that are read: settings, and options of the commands."""
    commands = typer.main.get_command(app).commands["service"].commands
    options = {option.envvar for name in ("serve", "worker") for option in commands[name].params if option.envvar}
    return options | {f"CLVLAB_{name.upper()}" for name, _ in _settings(Settings)}


def test_every_variable_is_a_setting_and_every_name_stands_for_something(composed, known):
    services = composed["services"]
    ours = [one for one in services.values() if one["image"] == "clvlab"]
    named = set(variables()).union(*(one["environment"] for one in ours))
    url = database_url(ours[0]["environment"]["CLVLAB_DATABASE_URL"])
    database = services["database"]["environment"]
    mounted = {volume.partition(":")[0] for one in services.values() for volume in one.get("volumes", ())}

    assert named - known == {"MPLCONFIGDIR"}
    assert (url.host, url.username, url.password, url.database) == (
        "database", database["POSTGRES_USER"], database["POSTGRES_PASSWORD"], database["POSTGRES_DB"],
    )  # fmt: skip
    assert {needed for one in services.values() for needed in one.get("depends_on", ())} <= set(services)
    assert mounted == set(composed["volumes"])
    assert json.loads(the("CMD")) in [one["command"] for one in ours]
    for one in ours:
        assert (FOLDER / one["build"]["context"] / one["build"]["dockerfile"]).samefile(FOLDER / "Containerfile")
        assert one["volumes"] == [f"state:{the('VOLUME')}"]


def test_what_is_installed_is_there():
    (command,) = [rest for word, rest in instructions() if word == "RUN" and "pip install" in rest]
    arguments = shlex.split(command.partition("&&")[0])
    extras = re.fullmatch(r"/src\[(.+)\]", arguments[-1])[1].split(",")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert set(extras) <= set(project["optional-dependencies"])
    assert (ROOT / Path(arguments[arguments.index("--constraint") + 1]).relative_to("/src")).is_file()
    assert [line for line in IGNORED if line[0] not in "!#"] == ["*"]
    assert [name for name in SOURCES if not (ROOT / name).exists()] == []
    assert instructions()[0] == ("FROM", "python:3.13-slim")
    assert "Programming Language :: Python :: 3.13" in project["classifiers"]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


@contextmanager
def started(command, environment, said):
    """Run a command of a container; in the end it must stop when it is told to."""
    with said.open("wb") as output, subprocess.Popen(command, env=environment, cwd=said.parent, stderr=output) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
    assert process.returncode == -signal.SIGTERM


def wait_until_ready(port, process, said):
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=2).raise_for_status()
            return
        except httpx2.HTTPError:
            assert process.poll() is None, said.read_text()
            assert time.monotonic() < until, said.read_text()
            time.sleep(0.05)


@pytest.fixture(scope="module")
def up(composed, postgres, tmp_path_factory):
    """The processes of the composition over a database, without its network; gives the port of each."""
    say(postgres.get_uri(), "CREATE DATABASE composed")
    state = tmp_path_factory.mktemp("state")
    ours = {name: one for name, one in composed["services"].items() if one["image"] == "clvlab"}
    path = {"PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)}
    key = [*ours["key"]["entrypoint"], *(line.replace(STATE, str(state)) for line in ours.pop("key")["command"])]
    for _ in range(2):  # it is run at every start
        subprocess.run(key, env=path, check=True)
    ports = {name: free_port() for name in ours}
    with ExitStack() as stack:
        processes = {}
        for name, one in ours.items():
            own = {variable: value.replace(STATE, str(state)) for variable, value in (variables() | one["environment"]).items()}
            port = "CLVLAB_PORT" if one["command"] == ["service", "serve"] else "CLVLAB_HEALTH_PORT"
            own |= {"CLVLAB_DATABASE_URL": postgres.get_uri(database="composed"), port: str(ports[name])}
            command = [*json.loads(the("ENTRYPOINT")), *one["command"]]
            running = started([str(BIN / command[0]), *command[1:]], path | own, state / f"{name}.log")
            processes[name] = stack.enter_context(running)
        for name, process in processes.items():
            wait_until_ready(ports[name], process, state / f"{name}.log")
        yield ports
    say(postgres.get_uri(), "DROP DATABASE composed WITH (FORCE)")


def test_the_composition_answers_at_two_services_what_two_workers_perform(up):
    first, second = up["service-1"], up["service-2"]

    made = httpx2.post(f"http://127.0.0.1:{first}/backtests", json=BACKTEST, timeout=PATIENCE_S)
    read = httpx2.get(f"http://127.0.0.1:{second}/runs/{made.json()['run_id']}", timeout=PATIENCE_S)
    signed = httpx2.get(f"http://127.0.0.1:{second}/log/checkpoint", timeout=PATIENCE_S)
    measured = {name: httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S).text for name, port in up.items()}

    assert (made.status_code, read.json()["run"]["status"]) == (201, "sealed")
    assert signed.text.startswith("example.org/log\n2\n")
    lanes = {name: int(re.search(r'clvlab_job_lanes\{of="jobs"\} (\d+)', text)[1]) for name, text in measured.items()}
    assert lanes == {"service-1": 0, "service-2": 0, "worker-1": 2, "worker-2": 2}


def test_a_container_is_healthy_by_the_command_that_says_so(up):
    check = json.loads(the("HEALTHCHECK").partition(" CMD ")[2])

    def status(port):
        told = [part.replace(f":{the('EXPOSE')}/", f":{port}/") for part in check[1:]]
        return subprocess.run([str(BIN / check[0]), *told], capture_output=True, check=False).returncode

    assert [status(port) for port in (up["service-1"], up["worker-1"], free_port())] == [0, 0, 1]
    assert variables()["CLVLAB_HEALTH_PORT"] == the("EXPOSE") == "8000"


@pytest.mark.skipif(shutil.which("caddy") is None, reason="caddy is missing")
def test_the_proxy_goes_on_without_one_of_its_services(composed, up, tmp_path):
    port, gone = free_port(), free_port()
    text = composed["configs"]["proxy"]["content"].replace(":8000 {", f":{port} {{")
    text = text.replace("service-1:8000", f"127.0.0.1:{up['service-1']}").replace("service-2:8000", f"127.0.0.1:{gone}")
    file = tmp_path / "Caddyfile"
    file.write_text("{\n  admin off\n}\n" + text)
    command = ["caddy", "run", "--config", str(file), "--adapter", "caddyfile"]
    with subprocess.Popen(command, env=os.environ | {"HOME": str(tmp_path)}, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(200):
                with socket.socket() as sock:
                    if not sock.connect_ex(("127.0.0.1", port)):
                        break
                time.sleep(0.05)
            statuses = [httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE_S).status_code for _ in range(10)]
        finally:
            process.terminate()

    assert statuses == [200] * 10


def build(folder):
    """Write a shell script that does as RUN says, and prints where ``clvlab`` is from.

    What it changes lies over the real folders, and is gone with the script.
    """
    source = folder / "src"
    lines = ["set -e", "mount --make-rprivate /", f"mount -t tmpfs none {folder}", f"mkdir {source}"]
    lines += [f"cp --recursive {shlex.quote(str(ROOT / name))} {source}" for name in SOURCES]
    for place in ("/etc", "/var", str(BIN.parent)):
        layers = folder / place.replace("/", "_")
        lines.append(f"mkdir --parents {layers}/upper {layers}/work")
        lines.append(f"mount -t overlay -o lowerdir={place},upperdir={layers}/upper,workdir={layers}/work overlay {place}")
    for word, rest in instructions():
        if word == "RUN":
            told = re.sub(r"(?<![\w/])/src", str(source), rest)
            lines += [told] if "pip install" not in rest else length([], [told])
    lines += [f"test $(stat --format %u {STATE}) = {the('USER')}", f"cd {STATE}", "unset PYTHONPATH"]
    lines += [f"{BIN}/python -c 'import clvlab; print(clvlab.__file__)'"]
    (folder / "build").write_text("\n".join(lines) + "\n")


def needs_overlays():
    needed = needs_root_of_linux()
    if needed is None and "overlay" not in Path("/proc/filesystems").read_text():
        return "there are no overlays here"
    return needed


@pytest.mark.skipif(needs_overlays() is not None, reason=str(needs_overlays()))
def test_an_image_is_built_by_what_it_says(tmp_path_factory):
    folder = tmp_path_factory.mktemp("image")
    (folder / "build").touch()
    build(folder)
    script = (folder / "build").read_text()

    path = {"PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], env=os.environ | path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(length("", str(BIN.parent / "lib")))
