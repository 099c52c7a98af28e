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
    return refused_in(stream);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return refused_in(stream);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = (cudaEvent_t)calloc(1, sizeof(struct event));
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
    ((struct event *)event)->milliseconds = milliseconds_now();
    note_event((struct event *)event, stream);
    return 0;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    return cudaEventRecord(event, stream);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t first, cudaEvent_t second)
{
    double from = ((struct event *)first)->milliseconds;
    *milliseconds = (float)(((struct event *)second)->milliseconds - from);
    return 0;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    host_waits("cudaEventSynchronize");
    return refused_for((struct event *)event);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return refused_for((struct event *)event);
}
