/* A CUDA runtime that computes nothing: what its parts share.
 *
 * Loaded before the real libraries (LD_PRELOAD), it takes the place of their functions. Devices
 * exist, their memory is the host's, copies are real, and kernels do nothing. So a program runs as
 * on GPUs, unchanged, and what it asks of them is counted. All functions return 0, success, unless
 * a comment says otherwise.
 */
#ifndef NULL_GPU_H
#define NULL_GPU_H

#include <stddef.h>

/* What is counted. Python reads the names, so a counter is added here only. */
#define COUNTERS(COUNTER)       \
    COUNTER(kernels)            \
    COUNTER(library_calls)      \
    COUNTER(pageable_to_device) \
    COUNTER(pinned_to_device)   \
    COUNTER(pageable_to_host)   \
    COUNTER(pinned_to_host)     \
    COUNTER(within_devices)     \
    COUNTER(memory_sets)        \
    COUNTER(collectives)        \
    COUNTER(captured)           \
    COUNTER(replays)            \
    COUNTER(replayed)           \
    COUNTER(allocations)        \
    COUNTER(device_bytes)       \
    COUNTER(peak_bytes)

#define AS_NAME(name) COUNT_##name,
enum counter { COUNTERS(AS_NAME) NUMBER_OF_COUNTERS };
#undef AS_NAME

enum memory { ORDINARY, PINNED, DEVICE };

/* A cudaStream_t. CUDA's header declares functions with arguments that the stubs do not have. */
typedef struct CUstream_st *Stream;

/* An event: when it was recorded, in which capture if any, and after how much of its stream's work. */
struct event {
    double milliseconds;
    long capture;
    long queued;
    Stream stream;
};

struct graph {
    size_t operations;
};

/* Names of ours must not take the place of a program's. */
#pragma GCC visibility push(hidden)

void count(enum counter what, long number);
long counted(enum counter what);

/* The host waits for a device here; Python may listen, to note where. */
void host_waits(const char *how);

/* Returns when all processes have begun the collectives that this one has (nccl.c). */
void wait_for_collectives(void);

enum memory kind_of(const void *address);
int compute_capability(void);
size_t device_memory(void);

/* Work for a stream: counted as `what`, or as captured if its stream is being captured. */
int queue_on(Stream stream, enum counter what);
int is_captured(Stream stream);

struct handle;
int count_call(const struct handle *handle);

/* The error of a call that a capture forbids: on its stream, in this thread, about the event; or 0. */
int refused_in(Stream stream);
int refused_now(void);
int refused_for(const struct event *event);
void note_event(struct event *event, Stream stream);

#pragma GCC visibility pop

#endif
