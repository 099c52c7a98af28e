"""The open inference protocol (v2), asked by Triton's own client and by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from asdf.service import tensors
from asdf.service.limits import Refusal
from tests.unit.conftest import sound
from tests.unit.service.conftest import LIMITS, Running, running

INFER = "/v2/models/plain/infer"


def ask(served: Running, document: object, tail: bytes = b"", **headers: str):
    body = json.dumps(document).encode()
    if tail:
        headers["Inference_Header_Content_Length"] = str(len(body))
    return served.ask(INFER, body + tail, Content_Type="application/json", **headers)


def tensor(name: str, values: np.ndarray, datatype: str = "FP32") -> dict:
    return {
        "name": name,
        "shape": list(values.shape),
        "datatype": datatype,
        "data": values.ravel().tolist(),
    }


@pytest.mark.parametrize("binary", [False, True])
def test_tritons_client_gets_the_scores_of_the_detector(served, detector, binary):
    http = pytest.importorskip("tritonclient.http", reason="needs tritonclient[http]")
    waveforms = np.stack([sound(12000, seed) for seed in range(3)]).astype(np.float32)
    with http.InferenceServerClient(served.url.removeprefix("http://")) as client:
        assert client.is_server_live() and client.is_server_ready()
        assert client.is_model_ready("plain") and client.is_model_ready("plain", "1")
        assert not client.is_model_ready("other")
        assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
        metadata = client.get_model_metadata("plain")
        assert metadata["inputs"][0]["name"] == "waveforms"
        inputs = [http.InferInput("waveforms", waveforms.shape, "FP32")]
        inputs[0].set_data_from_numpy(waveforms, binary_data=binary)
        outputs = []
        for name in ("scores", "verdicts", "entries"):
            assert name in [each["name"] for each in metadata["outputs"]]
            outputs.append(http.InferRequestedOutput(name, binary_data=binary))
        result = client.infer("plain", inputs, outputs=outputs, request_id="a")
        again = client.infer("plain", inputs, parameters={"sample_rate": 8000})
    expected = [detector.score_whole(row, 16000) for row in waveforms]
    scores = result.as_numpy("scores")
    np.testing.assert_allclose(scores, [each.score for each in expected], rtol=0, atol=1e-6)
    assert result.get_response()["id"] == "a"
    texts = [bytes(each) if binary else each for each in result.as_numpy("entries")]
    entries = [json.loads(each) for each in texts]
    assert [np.float32(entry["score"]) for entry in entries] == scores.tolist()
    assert [entry["seconds"] for entry in entries] == [0.75] * 3
    assert len(result.as_numpy("verdicts")) == 3
    at_8000 = [detector.score_whole(row, 8000).score for row in waveforms]
    np.testing.assert_allclose(again.as_numpy("scores"), at_8000, rtol=0, atol=1e-6)


def test_by_hand_with_lengths_and_a_rate(served, detector):
    waveforms = np.stack([sound(9000, seed) for seed in range(2)]).astype(np.float32)
    document = {
        "inputs": [
            tensor("lengths", np.array([9000, 5000]), "INT32"),
            tensor("sample_rate", np.array([8000]), "INT32"),
            {
                "name": "waveforms",
                "shape": [2, 9000],
                "datatype": "FP32",
                "parameters": {"binary_data_size": 72000},
            },
        ],
        "outputs": [{"name": "scores"}],
    }
    answer = ask(served, document, waveforms.tobytes())
    assert answer.status == 200
    (output,) = answer.json["outputs"]
    rows = (waveforms[0], waveforms[1, :5000])
    expected = [detector.score_whole(row, 8000).score for row in rows]
    assert output["data"] == pytest.approx(expected, abs=1e-6)
    assert answer.json["model_name"] == "plain"


ONE = tensor("waveforms", np.full(4000, 0.25, np.float32))
BINARY = {"name": "waveforms", "shape": [2], "datatype": "FP32"}


@pytest.mark.parametrize(
    ("document", "tail", "message"),
    [
        ([], b"", "open inference protocol"),
        ({"inputs": {}}, b"", "the protocol's types"),
        ({"inputs": []}, b"", "the inputs are waveforms"),
        ({"inputs": [{**ONE, "name": "audio"}]}, b"", "has 'audio'"),
        ({"inputs": [{**ONE, "datatype": "FP16"}]}, b"", "'FP16' is not one of FP32"),
        ({"inputs": [{**ONE, "datatype": "INT32"}]}, b"", "waveforms are FP32"),
        ({"inputs": [{**ONE, "shape": [4001]}]}, b"", "has 4000 values"),
        ({"inputs": [{**ONE, "shape": [-1]}]}, b"", "not have a shape of positive numbers"),
        ({"inputs": [{**ONE, "shape": []}]}, b"", "not have a shape of positive numbers"),
        (
            {"inputs": [{"name": "lengths", "shape": [1], "datatype": "INT32", "data": [10**30]}]},
            b"",
            "too large",
        ),
        ({"inputs": [ONE, tensor("lengths", np.full(1, 100.7), "FP64")]}, b"", "whole numbers"),
        ({"inputs": [{**ONE, "shape": [10**9, 10**9]}]}, b"", "has 4000 values"),
        ({"inputs": [{**ONE, "data": ["a"]}]}, b"", "could not convert"),
        ({"inputs": [ONE], "outputs": [{"name": "x"}]}, b"", "no output 'x'"),
        ({"inputs": [ONE]}, b"more", "4 bytes of it belong to no input"),
        ({"inputs": [{**BINARY, "parameters": {"binary_data_size": 9}}]}, b"x" * 9, "has 9 bytes"),
        ({"inputs": [{**BINARY, "parameters": {"binary_data_size": 8}}]}, b"x" * 4, "has 8 bytes"),
        (
            {"inputs": [ONE, tensor("lengths", np.array([4001]), "INT32")]},
            b"",
            "lengths are samples of each of the 1 recordings",
        ),
    ],
)
def test_what_is_no_request_is_refused_by_what_is_wrong(served, document, tail, message):
    answer = ask(served, document, tail)
    assert answer.status == 400, answer.content
    assert message in answer.json["error"]


def test_recordings_have_the_limits_of_uploads(detector):
    limits = replace(LIMITS, max_mb=0.1, max_seconds=1, queue=2)
    with running(detector, limits, token="secret of sixteen") as served:
        assert ask(served, {"inputs": [ONE]}).status == 401
        served.headers = {"Authorization": "Bearer secret of sixteen"}
        assert ask(served, {"inputs": [ONE]}).status == 200
        small = np.zeros((3, 10), np.float32) + 0.1
        answer = ask(served, {"inputs": [tensor("waveforms", small)]})
        assert answer.status == 413
        assert "3 recordings in a request: send 2 at most at a time" in answer.json["error"]
        long = {**BINARY, "shape": [16001], "parameters": {"binary_data_size": 64004}}
        answer = ask(served, {"inputs": [long]}, np.zeros(16001, "<f4").tobytes())
        assert answer.status == 422
        big = {**BINARY, "shape": [30000], "parameters": {"binary_data_size": 120000}}
        assert ask(served, {"inputs": [big]}, bytes(120000)).status == 413
        wrong = {"inputs": [ONE], "parameters": {"sample_rate": "fast"}}
        answer = ask(served, wrong)
        assert (answer.status, "sample_rate" in answer.json["error"]) == (422, True)
        nan = {**BINARY, "shape": [1], "parameters": {"binary_data_size": 4}}
        answer = ask(served, {"inputs": [nan]}, np.full(1, np.nan, "<f4").tobytes())
        assert (answer.status, "not finite" in answer.json["error"]) == (422, True)
        assert ask(served, {"inputs": [ONE]}, Content_Encoding="gzip").status == 415
        assert served.service.in_memory == 0
        numbers = served.ask("/metrics").content.decode()
        assert 'asdf_requests_total{path="/v2",status="200"} 1.0' in numbers


def test_other_models_and_versions_are_not_there(served):
    for path in ("/v2/models/other", "/v2/models/plain/versions/2", "/v2/models/other/ready"):
        answer = served.ask(path)
        assert answer.status == 404
        assert "there is no" in answer.json["error"]
    assert served.ask("/v2/models/plain/versions/1").status == 200
    assert served.ask("/v2/health/ready").json == {"ready": True}


def test_json_that_takes_too_much_memory_is_not_read():
    with pytest.raises(
        Refusal, match=r"the limit is 8,388,608\. Send tensors as binary"
    ) as refused:
        tensors.read_request(bytes(tensors.MAX_JSON + 1), None)
    assert refused.value.status == 413
