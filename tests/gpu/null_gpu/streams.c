/* Streams and events. All work is done as soon as it is queued, and an event is a time. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "null_gpu.h"

static double milliseconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    /* A stream is but a number; the first ones mean the default streams. */
    static uintptr_t last = 100;
    *stream = (cudaStream_t)__sync_add_and_fetch(&last, 1);
    return 0;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithPriority(stream, 0, 0);
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    *priority = 0;
    return 0;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    host_waits("cudaStreamSynchronize");
    return 0;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    *status = cudaStreamCaptureStatusNone;
    return 0;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **nodes,
                                     const cudaGraphEdgeData **edges, size_t *number)
{
    *status = cudaStreamCaptureStatusNone;
    if (id)
        *id = 0;
    if (number)
        *number = 0;
    return 0;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = (cudaEvent_t)calloc(1, sizeof(double));
    return 0;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return 0;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    *(double *)event = milliseconds_now();
    return 0;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    return cudaEventRecord(event, stream);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t first, cudaEvent_t second)
{
    *milliseconds = (float)(*(double *)second - *(double *)first);
    return 0;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    host_waits("cudaEventSynchronize");
    return 0;
}
