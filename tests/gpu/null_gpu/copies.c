/* Copies: real ones, counted by where they begin and end. */
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "null_gpu.h"

/* Larger copies are weights and optimiser states, whose numbers nobody looks at. */
enum { LARGEST = 64 << 20 };

static void copy(void *to, const void *from, size_t size)
{
    enum memory source = kind_of(from);
    enum memory target = kind_of(to);
    if (target == DEVICE && source == DEVICE) {
        count(COUNT_within_devices, 1);
    } else if (target == DEVICE) {
        count(source == PINNED ? COUNT_pinned_to_device : COUNT_pageable_to_device, 1);
        if (source == ORDINARY)
            host_waits("copy from pageable memory");
    } else if (source == DEVICE) {
        count(target == PINNED ? COUNT_pinned_to_host : COUNT_pageable_to_host, 1);
        if (target == ORDINARY)
            host_waits("copy to pageable memory");
    }
    if (size <= LARGEST)
        memmove(to, from, size);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    copy(to, from, size);
    return 0;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
    copy(to, from, size);
    host_waits("cudaMemcpy");
    return 0;
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t size, cudaStream_t stream)
{
    copy(to, from, size);
    return 0;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    count(COUNT_within_devices, 1);
    return 0;
}

cudaError_t cudaMemset(void *to, int value, size_t size)
{
    count(COUNT_memory_sets, 1);
    return 0;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream)
{
    count(COUNT_memory_sets, 1);
    return 0;
}

cudaError_t cudaGetSymbolAddress(void **address, const void *symbol)
{
    /* Constants of kernels; a kernel that does nothing reads none. */
    *address = calloc(1, 4096);
    return 0;
}
