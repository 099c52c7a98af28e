/* Kernels: counted, and not run. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <string.h>

#include "null_gpu.h"

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream)
{
    return queue_on(stream, COUNT_kernels);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream)
{
    return queue_on(stream, COUNT_kernels);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel,
                                void **arguments)
{
    return queue_on(config->stream, COUNT_kernels);
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function)
{
    *kernel = (cudaKernel_t)function;
    return 0;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    function(data);
    return 0;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *of, const void *function)
{
    memset(of, 0, sizeof *of);
    of->maxThreadsPerBlock = 1024;
    of->numRegs = 32;
    of->binaryVersion = compute_capability();
    of->ptxVersion = compute_capability();
    of->maxDynamicSharedSizeBytes = 232448;
    return 0;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *kernel,
                                                                   int threads, size_t shared,
                                                                   unsigned flags)
{
    *blocks = 2;
    return 0;
}

/* For driver.c, a library of its own. */
void null_gpu_count_kernel(void *stream)
{
    queue_on(stream, COUNT_kernels);
}

/* Where torch and Triton get functions of the driver from: they are in driver.c. */
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    *function = driver ? dlsym(driver, name) : NULL;
    if (result)
        *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return 0;
}
