/* Captured graphs: made ready, replayed and freed. A replay is one operation of the host's. */
#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "null_gpu.h"

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *number)
{
    *number = ((struct graph *)graph)->operations;
    return 0;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *made, cudaGraph_t graph,
                                          unsigned long long flags)
{
    struct graph *copied = malloc(sizeof *copied);
    *copied = *(struct graph *)graph;
    *made = (cudaGraphExec_t)copied;
    return 0;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    count(COUNT_replayed, ((struct graph *)graph)->operations);
    return queue_on(stream, COUNT_replays);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    free(graph);
    return 0;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    free(graph);
    return 0;
}
