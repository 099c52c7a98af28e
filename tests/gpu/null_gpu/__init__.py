"""NVIDIA GPUs that compute nothing, so that programs for GPUs run on machines without one.

A CUDA runtime whose kernels do nothing is loaded before the real one. The program is not patched:
torch's dispatcher, autograd, autocast, caching allocator, streams, events, pinned memory, loader
threads, DistributedDataParallel (NCCL is a stub, gloo is real), CUDA graphs, torch.compile and
Triton run as they do on a GPU. What shows: crashes around kernels, tensors on the wrong device or
of the wrong type, each wait of the host for the GPU with its place in the code, numbers of kernels,
copies and collectives, peaks of memory without cuDNN's workspaces. What cannot: numbers, which are
those of memory that nobody wrote (an EER of 100 % is normal), times of kernels, what NCCL does.

    build.py      compiles the sources here with gcc, once
    watch.py      reads the counters, inside the program
    null_gpu.h    what the C files share; each of them has one part of the runtime
    names.txt     the functions that need no code
"""
