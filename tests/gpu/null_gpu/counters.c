/* The counters, and who listens to waits of the host. */
#include "null_gpu.h"

#define AS_TEXT(name) #name " "

static const char names[] = COUNTERS(AS_TEXT);
static long counters[NUMBER_OF_COUNTERS];
static void (*listener)(const char *how);

void count(enum counter what, long number)
{
    /* Any thread may count: autograd's, the loader's, NCCL's watchdog. */
    __sync_fetch_and_add(&counters[what], number);
}

long counted(enum counter what)
{
    return __sync_fetch_and_add(&counters[what], 0);
}

void host_waits(const char *how)
{
    wait_for_collectives();
    if (listener)
        listener(how);
}

/* For Python. */

const char *null_gpu_counter_names(void)
{
    return names;
}

long null_gpu_counter(int number)
{
    return counted(number);
}

void null_gpu_listen(void (*function)(const char *how))
{
    listener = function;
}

void null_gpu_restart_peak(void)
{
    counters[COUNT_peak_bytes] = counters[COUNT_device_bytes];
}
