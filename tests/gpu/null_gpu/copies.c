/* Copies: real ones, counted by where they begin and end. */
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "null_gpu.h"

/* Larger copies are weights and optimiser states, whose numbers nobody looks at. */
enum { LARGEST = 64 << 20 };

static cudaError_t queue_copy(enum memory target, enum memory source, cudaStream_t stream)
{
    if (target == DEVICE && source == DEVICE)
        return queue_on(stream, COUNT_within_devices);
    if (source == PINNED || target == PINNED)
        return queue_on(stream, target == DEVICE ? COUNT_pinned_to_device : COUNT_pinned_to_host);
    int to_device = target == DEVICE;
    host_waits(to_device ? "copy from pageable memory" : "copy to pageable memory");
    count(to_device ? COUNT_pageable_to_device : COUNT_pageable_to_host, 1);
    return refused_in(stream);
}

static cudaError_t copy(void *to, const void *from, size_t size, cudaStream_t stream)
{
    enum memory source = kind_of(from);
    enum memory target = kind_of(to);
    cudaError_t error = 0;
    if (target == DEVICE || source == DEVICE)
        error = queue_copy(target, source, stream);
    /* A captured copy is not made. */
    if (size <= LARGEST && !is_captured(stream))
        memmove(to, from, size);
    return error;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    return copy(to, from, size, stream);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
    host_waits("cudaMemcpy");
    cudaError_t refused = refused_now();
    return refused ? refused : copy(to, from, size, NULL);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t size, cudaStream_t stream)
{
    return copy(to, from, size, stream);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    return queue_on(stream, COUNT_within_devices);
}

cudaError_t cudaMemset(void *to, int value, size_t size)
{
    return queue_on(NULL, COUNT_memory_sets);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream)
{
    return queue_on(stream, COUNT_memory_sets);
}

cudaError_t cudaGetSymbolAddress(void **address, const void *symbol)
{
    /* Constants of kernels; a kernel that does nothing reads none. */
    *address = calloc(1, 4096);
    return 0;
}
