/* The driver, libcuda.so.1, which Triton calls; names.txt has what only succeeds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

int cuDeviceGet(int *device, int number)
{
    *device = number;
    return 0;
}

int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

int cuGetErrorString(int error, const char **text)
{
    *text = "the null GPU's";
    return 0;
}

static void *context(void)
{
    static int only;
    return &only;
}

int cuCtxGetCurrent(void **current)
{
    *current = context();
    return 0;
}

int cuCtxGetDevice(int *device)
{
    *device = 0;
    return 0;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    if (flags)
        *flags = 0;
    *active = 1;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **retained, int device)
{
    *retained = context();
    return 0;
}

int cuPointerGetAttribute(void *value, int attribute, unsigned long address)
{
    /* Asked for a pointer's address on the device, which is the address itself. */
    enum { DEVICE_POINTER = 3 };
    if (attribute == DEVICE_POINTER)
        *(unsigned long *)value = address;
    return 0;
}

int cuFuncGetAttribute(int *value, int attribute, void *function)
{
    enum { MOST_THREADS = 0, REGISTERS = 4 };
    *value = 0;
    if (attribute == MOST_THREADS)
        *value = 1024;
    if (attribute == REGISTERS)
        *value = 32;
    return 0;
}

int cuOccupancyMaxActiveClusters(int *number)
{
    *number = 1;
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    int (*ask)(int *, int, int) = dlsym(RTLD_DEFAULT, "cudaDeviceGetAttribute");
    return ask(value, attribute, device);
}

static int launch(void *stream)
{
    void (*count_kernel)(void *) = dlsym(RTLD_DEFAULT, "null_gpu_count_kernel");
    count_kernel(stream);
    return 0;
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                   void *stream, void **arguments, void **more)
{
    return launch(stream);
}

/* The driver's own structure, whose header is not here. */
struct configuration {
    unsigned grid_block_shared[7];
    void *stream;
};

int cuLaunchKernelEx(const struct configuration *configuration)
{
    return launch(configuration->stream);
}
