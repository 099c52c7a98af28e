"""What starts services by itself: files for compose and Kubernetes, and Ray Serve."""

from __future__ import annotations

import json
import socket
import tempfile
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from starlette.testclient import TestClient

from asdf.__main__ import main
from asdf.errors import UsageError
from asdf.service import ServiceLimits
from asdf.service.calls import MAX_MESSAGE
from asdf.service.commands.serve import COMMAND, ServeOptions
from asdf.service.ray_serve import Replica, ReplicaOptions, application
from asdf.service.shared_passes import SharedPasses
from tests.conftest import PATIENCE_S, ROOT
from tests.unit.conftest import sound
from tests.unit.service.conftest import TESTS, as_file

DEPLOY = ROOT / "deploy"


def read_command(words: list[str]) -> ServeOptions:
    assert words[:4] == ["python", "-m", "asdf", "serve"]
    return COMMAND.read(words[4:])


def test_the_command_of_the_compose_file_is_one(capsys):
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    service = compose["services"]["asdf"]
    options = read_command(service["command"])
    assert (options.host, options.workers) == ("0.0.0.0", 2)
    assert options.token_file == Path("/run/secrets/token")
    # The folder of the network is mounted, and a port of this machine is that of the service.
    assert options.network.startswith(service["volumes"][0].split(":")[1])
    assert service["ports"] == [f"127.0.0.1:8000:{options.port}"]
    assert int(service["stop_grace_period"].removesuffix("s")) > options.stop_s
    test = service["healthcheck"]["test"]
    compile(test[-1], "healthcheck", "exec")
    assert f"127.0.0.1:{options.port}/ready" in test[-1]
    prometheus = yaml.safe_load(compose["configs"]["prometheus"]["content"])
    assert prometheus["scrape_configs"][0]["static_configs"][0]["targets"] == ["asdf:8000"]
    with pytest.raises(SystemExit) as ended:
        main([*service["command"][3:], "--help"])
    assert ended.value.code == 0
    assert "--workers" in capsys.readouterr().out


def test_the_files_for_kubernetes_ask_what_there_is(served):
    texts = (DEPLOY / "kubernetes.yaml").read_text()
    deployment, balancer, kserve = yaml.safe_load_all(texts)
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    options = read_command(container["command"])
    assert container["ports"][0]["containerPort"] == options.port
    assert balancer["spec"]["ports"][0]["targetPort"] == options.port
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > options.stop_s
    predictor = kserve["spec"]["predictor"]["containers"][0]
    assert read_command(predictor["command"]).port == predictor["ports"][0]["containerPort"]
    probes = [container["readinessProbe"], container["livenessProbe"], predictor["readinessProbe"]]
    for probe in probes:
        assert served.ask(probe["httpGet"]["path"]).status == 200


def test_a_replica_is_ready_when_it_has_scored(network, monkeypatch):
    options = ReplicaOptions(network=str(network), network_folder=str(TESTS), without_token=True)
    replica = Replica(options, ServiceLimits())
    replica.check_health()
    app = TestClient(replica.__serve_build_asgi_app__())
    assert app.get("/ready").json()["ready"]
    monkeypatch.setattr(SharedPasses, "pass_s", 1000.0)
    with pytest.raises(RuntimeError, match="does not return"):
        replica.check_health()
    assert app.get("/live").status_code == 503
    replica._service.close()
    monkeypatch.delenv("ASDF_SERVICE_TOKEN", raising=False)
    with pytest.raises(UsageError, match="Set a token"):
        Replica(replace(options, without_token=False), ServiceLimits())


def test_a_replica_refuses_messages_that_its_server_lets_through(network):
    options = ReplicaOptions(network=str(network), network_folder=str(TESTS), without_token=True)
    replica = Replica(options, ServiceLimits())
    app = TestClient(replica.__serve_build_asgi_app__())
    for send, most in (("send_bytes", bytes(MAX_MESSAGE)), ("send_text", "x" * MAX_MESSAGE)):
        with app.websocket_connect("/stream?rate=8000&window=1") as call:
            getattr(call, send)(most + most[:1])
            assert "a message has 262,144 bytes at most" in call.receive_json()["error"]
            assert call.receive() == {"type": "websocket.close", "code": 1009, "reason": ""}
        # The largest that there may be is read.
        with app.websocket_connect("/stream?rate=8000&window=1") as call:
            getattr(call, send)(most)
            answer = call.receive_json()
        assert "window" in answer or "a text message must be 'end'" in answer["error"]
    replica._service.close()


def test_options_of_ray_serve_that_are_not_known_are_refused():
    cases = [
        ({"netwrok": "a"}, "there is no option 'netwrok': there are network, replicas"),
        ({"replicas": "many"}, "replicas = 'many': give a int"),
        ({"without_token": "perhaps"}, "without_token = 'perhaps': give a bool"),
        ({"queue": "0"}, "queue = 0: give 1 or more"),
    ]
    for options, message in cases:
        with pytest.raises(UsageError, match=message):
            application(options)


@pytest.mark.slow
def test_replicas_of_ray_serve_answer_as_a_service(network, monkeypatch):
    serve = pytest.importorskip("ray.serve", reason="needs ray[serve]")
    import ray

    for name, value in (("RAY_USAGE_STATS_ENABLED", "0"), ("RAY_AUTH_MODE", "disabled")):
        monkeypatch.setenv(name, value)
    # Names of sockets have no room for a folder of pytest.
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="ray") as folder:
        # Not that of another test which runs beside this one.
        options = {"num_cpus": 2, "include_dashboard": False, "log_to_driver": False}
        ray.init("local", **options, _temp_dir=folder)
        try:
            ask_replicas(serve, network, application)
        finally:
            serve.shutdown()
            ray.shutdown()


def ask_replicas(serve, network, application) -> None:
    """Deploy a network, and hold its answers to those of a service."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve.start(http_options={"port": port})
    options = {"network": str(network), "network_folder": str(TESTS), "replicas": "1"}
    serve.run(application({**options, "without_token": "true"}), route_prefix="/")
    url = f"http://127.0.0.1:{port}"
    for _ in range(3):
        request = urllib.request.Request(
            f"{url}/score", as_file(sound(20000)), {"Content-Type": "audio/wav"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            document = json.load(answer)
        assert document["recordings"][0]["seconds"] == 1.25
    with urllib.request.urlopen(f"{url}/ready", timeout=PATIENCE_S) as answer:
        ready = json.load(answer)
    assert ready["network_sha256"] == document["made_by"]["network_sha256"]
