"""What starts services by itself: files for compose and Kubernetes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from asdf.__main__ import main
from asdf.service.commands.serve import COMMAND, ServeOptions
from tests.conftest import ROOT

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
