"""Networks for scoring on a CPU, with weights in an optimised layout.

Invariant: results equal the network's up to the rounding of float32, and a row of a batch does not
depend on the other rows. The network itself is not changed, unless `replace` is set.

Torch multiplies matrices with MKL, which is slow on AMD processors, and lets oneDNN convert a
convolution's weights and results to another layout in each call. With weights in its own layout,
oneDNN is faster on AMD and Intel processors. SELU takes a third of AASIST's time because torch's
exponential function is slow.
"""
