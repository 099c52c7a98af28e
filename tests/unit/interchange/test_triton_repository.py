"""`export --format triton`: a model repository that Triton's own format reads, and KServe's."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from asdf.__main__ import main
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.interchange.onnx_graphs import Graph
from asdf.interchange.triton_repository import model_config, model_name
from asdf.metrics.calibration import Calibration
from tests.unit.commands.test_export_network import settings_of
from tests.unit.interchange.test_transformers_folder import drawn

text_format = pytest.importorskip("google.protobuf.text_format")
# Its package asks for grpc at once.
model_config_pb2 = pytest.importorskip("tritonclient.grpc").model_config_pb2


def parsed(text: str):
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def test_the_configuration_is_one_of_triton():
    network = drawn(settings_of("SSL_Linear"))
    facts = {"min_samples": 400, "note": 'a "word"\nand Ü'}
    graph = Graph(b"", (1,), "")
    config = parsed(model_config("ssl_linear", network, graph, facts, int8=False))
    assert (config.name, config.platform) == ("ssl_linear", "onnxruntime_onnx")
    assert config.max_batch_size == 32 and config.HasField("dynamic_batching")
    (waveforms,) = config.input
    assert (waveforms.name, list(waveforms.dims)) == ("waveforms", [-1])
    assert waveforms.data_type == model_config_pb2.TYPE_FP32
    embedding = network(torch.zeros(1, 4000))[0].shape[1]
    assert [(each.name, list(each.dims)) for each in config.output] == [
        ("embeddings", [embedding]),
        ("logits", [2]),
    ]
    assert config.parameters["min_samples"].string_value == "400"
    assert config.parameters["note"].string_value == 'a "word"\nand Ü'


def test_a_quantised_graph_gets_one_recording_at_a_time_and_a_fixed_one_its_length():
    network = drawn(settings_of("SSL_Linear"))
    graph = Graph(b"", (5000,), "", only=5000)
    config = parsed(model_config("n", network, graph, {}, int8=True))
    assert config.max_batch_size == 1 and not config.HasField("dynamic_batching")
    assert list(config.input[0].dims) == [5000]


@pytest.mark.parametrize(
    ("text", "name"), [("SSL_AASIST", "ssl_aasist"), ("Ä net!2", "net_2"), ("--", "detector")]
)
def test_names_are_those_that_servers_take(text, name):
    assert model_name(text) == name


@pytest.mark.slow
def test_the_repository_scores_as_the_network(tmp_path, capsys):
    onnxruntime = pytest.importorskip("onnxruntime")
    yaml = pytest.importorskip("yaml")
    settings = settings_of("SSL_AASIST")
    settings.network.score = "difference"
    network = drawn(settings)
    calibration = Calibration(2.0, -0.5, 0.25)
    entries = {"calibration": calibration.content()}
    write_network_file(tmp_path / "net.pt", NetworkFile.from_network(network, settings, **entries))
    out = tmp_path / "repository"
    words = ["export", str(tmp_path / "net.pt"), "--format", "triton", str(out)]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "tritonserver --model-repository" in said and "'ssl_aasist'" in said
    config = parsed((out / "ssl_aasist" / "config.pbtxt").read_text())
    parameters = {key: each.string_value for key, each in config.parameters.items()}
    assert parameters["score"] == "difference" and parameters["sampling_rate"] == "16000"
    assert json.loads(parameters["calibration"]) == {"scale": 2.0, "offset": -0.5}
    session = onnxruntime.InferenceSession(out / "ssl_aasist" / "1" / "model.onnx")
    shapes = {each.name: each.shape for each in (*session.get_inputs(), *session.get_outputs())}
    assert shapes["waveforms"] == ["batch", "samples"]
    for each in config.output:
        assert len(shapes[each.name]) == 1 + len(each.dims)
    for samples in (9000, 30001):
        waveforms_BT = 0.1 * np.random.default_rng(0).standard_normal((2, samples))
        waveforms_BT = waveforms_BT.astype(np.float32)
        embeddings_BE, logits_B2 = session.run(
            [each.name for each in config.output], {config.input[0].name: waveforms_BT}
        )
        with torch.no_grad():
            expected = network(torch.from_numpy(waveforms_BT))
        np.testing.assert_allclose(logits_B2, expected[1].numpy(), atol=1e-4)
        assert list(embeddings_BE.shape[1:]) == list(config.output[0].dims)
    manifest = yaml.safe_load((out / "inferenceservice.yaml").read_text())
    assert manifest["apiVersion"] == "serving.kserve.io/v1beta1"
    assert manifest["kind"] == "InferenceService" and manifest["metadata"]["name"] == "ssl-aasist"
    model = manifest["spec"]["predictor"]["model"]
    assert (model["runtime"], model["protocolVersion"]) == ("kserve-tritonserver", "v2")
    assert model["modelFormat"] == {"name": "triton"} and model["storageUri"].startswith("pvc://")
    assert main(words) == 2
    assert "exists" in capsys.readouterr().err
