/* Memory of the devices and pinned memory, both the host's, and which of them an address lies in. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "null_gpu.h"

struct region {
    char *begin;
    size_t size;
    enum memory kind;
};

enum { REGIONS = 1 << 16 };

static struct region regions[REGIONS];
static int used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void remember(void *begin, size_t size, enum memory kind)
{
    int free_one = 0;
    pthread_mutex_lock(&lock);
    while (free_one < used && regions[free_one].begin)
        free_one++;
    if (free_one == used)
        used++;
    regions[free_one] = (struct region){begin, size, kind};
    pthread_mutex_unlock(&lock);
}

/* The size of the region that begins there; 0 where none does. */
static size_t forget(void *begin)
{
    size_t size = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < used; i++) {
        if (regions[i].begin != begin)
            continue;
        size = regions[i].size;
        regions[i].begin = NULL;
        break;
    }
    pthread_mutex_unlock(&lock);
    return size;
}

enum memory kind_of(const void *address)
{
    enum memory kind = ORDINARY;
    const char *byte = address;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < used; i++) {
        const struct region *region = &regions[i];
        if (region->begin && byte >= region->begin && byte < region->begin + region->size) {
            kind = region->kind;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return kind;
}

/* Pages that are never written cost nothing: a device of 85 GB fits any machine. */
static void *take_pages(size_t size)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

static size_t give_back(void *begin)
{
    size_t size = forget(begin);
    if (size)
        munmap(begin, size);
    return size;
}

cudaError_t cudaMalloc(void **begin, size_t size)
{
    cudaError_t refused = refused_now();
    if (refused)
        return refused;
    if (counted(COUNT_device_bytes) + size > device_memory())
        return cudaErrorMemoryAllocation;
    *begin = take_pages(size);
    if (!*begin)
        return cudaErrorMemoryAllocation;
    remember(*begin, size, DEVICE);
    count(COUNT_allocations, 1);
    count(COUNT_device_bytes, size);
    long above = counted(COUNT_device_bytes) - counted(COUNT_peak_bytes);
    if (above > 0)
        count(COUNT_peak_bytes, above);
    return 0;
}

cudaError_t cudaFree(void *begin)
{
    cudaError_t refused = refused_now();
    if (refused)
        return refused;
    if (begin)
        count(COUNT_device_bytes, -(long)give_back(begin));
    return 0;
}

cudaError_t cudaHostAlloc(void **begin, size_t size, unsigned flags)
{
    cudaError_t refused = refused_now();
    if (refused)
        return refused;
    *begin = take_pages(size);
    if (!*begin)
        return cudaErrorMemoryAllocation;
    remember(*begin, size, PINNED);
    return 0;
}

cudaError_t cudaFreeHost(void *begin)
{
    give_back(begin);
    return 0;
}

cudaError_t cudaHostRegister(void *begin, size_t size, unsigned flags)
{
    remember(begin, size, PINNED);
    return 0;
}

cudaError_t cudaHostUnregister(void *begin)
{
    forget(begin);
    return 0;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    *total = device_memory();
    *free_bytes = *total - counted(COUNT_device_bytes);
    return 0;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *of, const void *address)
{
    static const enum cudaMemoryType types[] = {
        [ORDINARY] = cudaMemoryTypeUnregistered,
        [PINNED] = cudaMemoryTypeHost,
        [DEVICE] = cudaMemoryTypeDevice,
    };
    enum memory kind = kind_of(address);
    memset(of, 0, sizeof *of);
    of->type = types[kind];
    of->device = kind == ORDINARY ? -1 : 0;
    of->devicePointer = (void *)address;
    of->hostPointer = (void *)address;
    return 0;
}
