/* The devices: how many there are and what they say of themselves. The environment decides. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "null_gpu.h"

/* The numbers that do not matter are those of an H100. */
enum { PROCESSORS = 132, THREADS = 2048, SHARED_MEMORY = 233472, REGISTERS = 65536 };

static __thread int current;

static int number_in(const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    return text ? atoi(text) : otherwise;
}

/* The machine's number of a device that CUDA_VISIBLE_DEVICES shows; -1 where it shows no such device.
 * As CUDA reads it: numbers, up to the first that is not there, or one part of a GPU (MIG). */
static int on_machine(int device)
{
    const char *shown = getenv("CUDA_VISIBLE_DEVICES");
    int there = number_in("NULL_GPU_COUNT", 1);
    if (!shown)
        return device < there ? device : -1;
    if (!strncmp(shown, "MIG-", 4))
        return device == 0 ? 0 : -1;
    for (int position = 0;; position++) {
        char *end;
        long number = strtol(shown, &end, 10);
        if (end == shown || number < 0 || number >= there)
            return -1;
        if (position == device)
            return (int)number;
        if (*end != ',')
            return -1;
        shown = end + 1;
    }
}

static int devices(void)
{
    int number = 0;
    while (on_machine(number) >= 0)
        number++;
    return number;
}

int compute_capability(void)
{
    return number_in("NULL_GPU_CAPABILITY", 90);
}

size_t device_memory(void)
{
    return (size_t)number_in("NULL_GPU_GIGABYTES", 85) * 1000000000;
}

cudaError_t cudaGetDeviceCount(int *number)
{
    *number = devices();
    return 0;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return 0;
}

cudaError_t cudaSetDevice(int device)
{
    if (device >= devices())
        return cudaErrorInvalidDevice;
    current = device;
    return 0;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *of, int device)
{
    memset(of, 0, sizeof *of);
    snprintf(of->name, sizeof of->name, "Null GPU");
    of->totalGlobalMem = device_memory();
    of->major = compute_capability() / 10;
    of->minor = compute_capability() % 10;
    of->multiProcessorCount = PROCESSORS;
    of->warpSize = 32;
    of->maxThreadsPerBlock = 1024;
    of->maxThreadsPerMultiProcessor = THREADS;
    of->maxBlocksPerMultiProcessor = 32;
    of->sharedMemPerBlock = 49152;
    of->sharedMemPerBlockOptin = SHARED_MEMORY - 1024;
    of->sharedMemPerMultiprocessor = SHARED_MEMORY;
    of->regsPerBlock = REGISTERS;
    of->regsPerMultiprocessor = REGISTERS;
    of->maxGridSize[0] = 2147483647;
    of->maxGridSize[1] = 65535;
    of->maxGridSize[2] = 65535;
    of->maxThreadsDim[0] = 1024;
    of->maxThreadsDim[1] = 1024;
    of->maxThreadsDim[2] = 64;
    of->l2CacheSize = 50 << 20;
    of->memoryBusWidth = 5120;
    of->textureAlignment = 512;
    of->concurrentKernels = 1;
    of->unifiedAddressing = 1;
    of->managedMemory = 1;
    /* By its bus a device is told from others: each process must find its own. */
    of->pciBusID = 1 + on_machine(device);
    return 0;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    struct cudaDeviceProp of;
    cudaGetDeviceProperties(&of, device);
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
        *value = of.maxThreadsPerBlock;
        break;
    case cudaDevAttrMaxBlockDimZ:
        *value = of.maxThreadsDim[2];
        break;
    case cudaDevAttrMaxGridDimX:
        *value = of.maxGridSize[0];
        break;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
        *value = of.maxGridSize[1];
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = (int)of.sharedMemPerBlock;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)of.sharedMemPerBlockOptin;
        break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = (int)of.sharedMemPerMultiprocessor;
        break;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
        *value = REGISTERS;
        break;
    case cudaDevAttrWarpSize:
    case cudaDevAttrMaxBlocksPerMultiprocessor:
        *value = 32;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = PROCESSORS;
        break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = THREADS;
        break;
    case cudaDevAttrL2CacheSize:
        *value = of.l2CacheSize;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = of.major;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = of.minor;
        break;
    default:
        /* Most others ask whether the device can do something. */
        *value = 1;
    }
    return 0;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int device)
{
    snprintf(text, size, "0000:%02x:00.0", 1 + on_machine(device));
    return 0;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = 1;
    return 0;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return 0;
}

cudaError_t cudaDeviceSynchronize(void)
{
    host_waits("cudaDeviceSynchronize");
    return refused_now();
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return 0;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return 0;
}
