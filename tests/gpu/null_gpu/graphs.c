/* CUDA graphs: while a stream is captured, what is queued on it is noted instead of done.
 *
 * What a device refuses during a capture is refused here, with its errors, and ends the capture: the
 * host waits, memory that is not pinned is copied, a stream waits for work outside the capture, or
 * work in another stream is not waited for. One capture at a time, as a program with one device has.
 */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "null_gpu.h"

/* A stream that takes part in the capture; `waited_for`: how much of its work another waited for. */
struct part {
    cudaStream_t stream;
    long queued;
    long waited_for;
};

enum { PARTS = 64 };

/* The first part is the stream where the capture began. */
static struct part parts[PARTS];
static int used;
static long capture;
static long captures;
static size_t operations;
static int invalid;
static enum cudaStreamCaptureMode begun_with;
static pthread_t begun_by;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread enum cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

static struct part *part_of(cudaStream_t stream)
{
    for (int i = 0; capture && i < used; i++)
        if (parts[i].stream == stream)
            return &parts[i];
    return NULL;
}

static cudaError_t spoil(cudaError_t error)
{
    invalid = 1;
    return error;
}

int queue_on(cudaStream_t stream, enum counter what)
{
    pthread_mutex_lock(&lock);
    struct part *part = part_of(stream);
    if (part) {
        part->queued++;
        operations++;
    }
    pthread_mutex_unlock(&lock);
    count(part ? COUNT_captured : what, 1);
    return 0;
}

int is_captured(cudaStream_t stream)
{
    pthread_mutex_lock(&lock);
    int captured = part_of(stream) != NULL;
    pthread_mutex_unlock(&lock);
    return captured;
}

int refused_in(cudaStream_t stream)
{
    return is_captured(stream) ? spoil(cudaErrorStreamCaptureUnsupported) : 0;
}

/* Calls that could disturb a capture are refused as cudaThreadExchangeStreamCaptureMode says. */
int refused_now(void)
{
    if (!capture || thread_mode == cudaStreamCaptureModeRelaxed)
        return 0;
    int own = pthread_equal(begun_by, pthread_self());
    int global = begun_with == cudaStreamCaptureModeGlobal;
    if (own ? begun_with == cudaStreamCaptureModeRelaxed
            : !(global && thread_mode == cudaStreamCaptureModeGlobal))
        return 0;
    return spoil(cudaErrorStreamCaptureUnsupported);
}

int refused_for(const struct event *event)
{
    return capture && event->capture == capture ? spoil(cudaErrorCapturedEvent) : refused_now();
}

void note_event(struct event *event, cudaStream_t stream)
{
    pthread_mutex_lock(&lock);
    struct part *part = part_of(stream);
    event->capture = part ? capture : 0;
    event->stream = stream;
    event->queued = part ? part->queued : 0;
    pthread_mutex_unlock(&lock);
}

static cudaError_t wait_inside(cudaStream_t stream, const struct event *event)
{
    int captured = capture && event->capture == capture;
    if (!captured)
        return part_of(stream) ? spoil(cudaErrorStreamCaptureIsolation) : 0;
    if (!part_of(stream)) {
        if (used == PARTS)
            return cudaErrorNotSupported;
        parts[used++] = (struct part){stream, 0, 0};
    }
    struct part *awaited = part_of(event->stream);
    if (event->queued > awaited->waited_for)
        awaited->waited_for = event->queued;
    return 0;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    pthread_mutex_lock(&lock);
    cudaError_t error = wait_inside(stream, (const struct event *)event);
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    if (capture || stream == NULL)
        return cudaErrorStreamCaptureUnsupported;
    parts[0] = (struct part){stream, 0, 0};
    used = 1;
    operations = 0;
    invalid = 0;
    begun_with = mode;
    begun_by = pthread_self();
    capture = ++captures;
    return 0;
}

static cudaError_t outcome(cudaStream_t stream)
{
    if (begun_with != cudaStreamCaptureModeRelaxed && !pthread_equal(begun_by, pthread_self()))
        return cudaErrorStreamCaptureWrongThread;
    if (parts[0].stream != stream)
        return cudaErrorStreamCaptureUnmatched;
    if (invalid)
        return cudaErrorStreamCaptureInvalidated;
    for (int i = 1; i < used; i++)
        if (parts[i].waited_for < parts[i].queued)
            return cudaErrorStreamCaptureUnjoined;
    return 0;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *made)
{
    cudaError_t error = capture ? outcome(stream) : cudaErrorIllegalState;
    *made = NULL;
    capture = 0;
    if (error)
        return error;
    struct graph *graph = malloc(sizeof *graph);
    graph->operations = operations;
    *made = (cudaGraph_t)graph;
    return 0;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    *status = cudaStreamCaptureStatusNone;
    if (is_captured(stream))
        *status = invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
    return 0;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **nodes,
                                     const cudaGraphEdgeData **edges, size_t *number)
{
    cudaStreamIsCapturing(stream, status);
    if (id)
        *id = *status == cudaStreamCaptureStatusNone ? 0 : capture;
    if (number)
        *number = 0;
    return 0;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    enum cudaStreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return 0;
}
