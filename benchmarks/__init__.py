"""What ASDF's speed and memory are measured at, beside the peers that they are measured against.

    python -m benchmarks                        # all benchmarks, about half an hour on two cores
    python -m benchmarks rawboost metrics       # some of them
    python -m benchmarks --quick                # a smoke run: everything small, numbers of no worth
    python -m benchmarks --json OUT             # results for a report
    python -m benchmarks --report JSON...       # writes RESULTS.md and results.svg from them
    python -m benchmarks gpu                    # the acceptance run on a GPU: see benchmarks/gpu
    python -m benchmarks gpu-counts             # what a step costs the host, counted without a GPU
    python -m benchmarks precision ...          # what TF32 and bf16 do to error rates, emulated

Run from the checkout, on a machine that does nothing else. Peers come from PyPI (`pip install
transformers accelerate audiomentations scipy`); a row whose peer is not installed says so.
"""
