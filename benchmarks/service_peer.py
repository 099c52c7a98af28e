"""What one would write in an afternoon to serve a graph: FastAPI with ONNX Runtime, one thread.

python -m granian --interface asgi benchmarks.service_peer:app
"""

from __future__ import annotations

import io
import threading

import onnxruntime
import soundfile
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from scipy.signal import resample_poly

from asdf.shipped import GRAPH

app = FastAPI()
lock = threading.Lock()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(GRAPH, options)


def compute(content: bytes) -> float:
    """Return the graph's score of a recording; one at a time, with one thread."""
    samples, rate = soundfile.read(io.BytesIO(content), dtype="float32")
    if rate != 16000:
        samples = resample_poly(samples, 16000, rate)
    with lock:
        logits_B2 = session.run(["logits"], {"waveforms": samples[None]})[0]
    return float(logits_B2[0, 1])


@app.post("/score")
async def score(request: Request) -> dict[str, float]:
    """Score the recording that is the body."""
    return {"score": await run_in_threadpool(compute, await request.body())}
