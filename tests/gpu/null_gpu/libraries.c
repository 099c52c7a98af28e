/* cuBLAS, cuDNN and cuFFT, where they answer; names.txt has their functions that only succeed. */
#include <stdlib.h>
#include <string.h>

#include "null_gpu.h"

/* Of what the libraries hand out only the stream matters, of handles; the rest is handed back. */
struct handle {
    Stream stream;
    char rest[56];
};

static int make_handle(void **handle)
{
    *handle = calloc(1, sizeof(struct handle));
    return 0;
}

int count_call(const struct handle *handle)
{
    return queue_on(handle->stream, COUNT_library_calls);
}

int cublasSetStream_v2(struct handle *handle, Stream stream)
{
    handle->stream = stream;
    return 0;
}

int cudnnSetStream(struct handle *handle, Stream stream)
{
    handle->stream = stream;
    return 0;
}

int cublasCreate_v2(void **handle)
{
    return make_handle(handle);
}

int cublasLtMatmulDescCreate(void **handle)
{
    return make_handle(handle);
}

int cublasLtMatmulPreferenceCreate(void **handle)
{
    return make_handle(handle);
}

int cublasLtMatrixLayoutCreate(void **handle)
{
    return make_handle(handle);
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *product, void *a, void *b, void *c, void *d,
                                   void *preference, int wanted, void *results, int *number)
{
    /* One way to multiply, which needs no workspace: torch raises an error where there is none. */
    memset(results, 0, 64);
    *number = 1;
    return 0;
}

int cublasLtMatmul(void *handle, void *product, void *alpha, void *in_a, void *a, void *in_b, void *b,
                   void *beta, void *in_c, void *c, void *in_d, void *d, void *algorithm,
                   void *workspace, size_t workspace_size, Stream stream)
{
    return queue_on(stream, COUNT_library_calls);
}

size_t cublasLtGetVersion(void)
{
    return 130100;
}

int cudnnCreate(void **handle)
{
    return make_handle(handle);
}

/* Newer than any: torch wants at least the version that it was built with. */
enum { CUDNN_MAJOR = 9, CUDNN_MINOR = 99 };

size_t cudnnGetVersion(void)
{
    return CUDNN_MAJOR * 10000 + CUDNN_MINOR * 100;
}

int cudnnGetProperty(int which, int *value)
{
    static const int version[] = {CUDNN_MAJOR, CUDNN_MINOR, 0};
    *value = version[which];
    return 0;
}

size_t cudnnGetCudartVersion(void)
{
    return 13000;
}

const char *cudnnGetErrorString(int status)
{
    return "the null GPU's";
}

void cudnnGetLastErrorString(char *text, size_t size)
{
    if (size)
        *text = 0;
}

int cudnnBackendCreateDescriptor(int kind, void **handle)
{
    return make_handle(handle);
}

int cudnnBackendGetAttribute(void *descriptor, int name, int type, long wanted, long *number,
                             void *values)
{
    enum { INT64 = 3 };
    if (number)
        *number = 1;
    if (values && type == INT64 && wanted > 0)
        *(long *)values = 0;
    return 0;
}

int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *handle, int mode, int ops,
                                                             void *x, void *z, void *y,
                                                             void *parameters, void *activation,
                                                             size_t *size)
{
    *size = 0;
    return 0;
}

int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *handle, int mode, int ops,
                                                         void *activation, void *x, size_t *size)
{
    *size = 0;
    return 0;
}

int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *handle, int mode, int ops, void *x,
                                                      void *y, void *dy, void *dz, void *dx,
                                                      void *parameters, void *activation,
                                                      size_t *size)
{
    *size = 0;
    return 0;
}

int cudnnCreateTensorDescriptor(void **handle)
{
    return make_handle(handle);
}

int cudnnCreateActivationDescriptor(void **handle)
{
    return make_handle(handle);
}

int cufftCreate(int *plan)
{
    *plan = 1;
    return 0;
}

int cufftXtMakePlanMany(int plan, int rank, long long *n, long long *in, long long in_stride,
                        long long in_distance, int in_type, long long *out, long long out_stride,
                        long long out_distance, int out_type, long long batch, size_t *work,
                        int type)
{
    *work = 0;
    return 0;
}

int cufftXtExec(int plan, void *in, void *out, int direction)
{
    count(COUNT_library_calls, 1);
    return 0;
}
