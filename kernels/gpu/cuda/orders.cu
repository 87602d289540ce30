// The order of the rows in an epoch (Fisher and Yates), as kernels/native/nets draws it.
//
// One block per order: all threads draw numbers, and one of them swaps, in shared memory.

#define DRAWN 1024 // numbers at a time

typedef unsigned long long uint64;

__device__ inline uint64 scrambled(uint64 x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// Fills orders (G, longest): indices 0 to counts[g] - 1 in the order of the seed, then the others
// in order. counts (G,). shuffled 0: all in order.
extern "C" __global__ void __launch_bounds__(THREADS)
    draw_orders(const int64 *counts, int64 longest, uint64 seed, int shuffled, int *orders) {
    DYNAMIC_SHARED
    __shared__ int drawn[DRAWN];
    int *order = (int *)shared;
    const int thread = threadIdx.x;
    const int64 g = blockIdx.x, n = counts[g];
    for (int64 k = thread; k < n; k += THREADS)
        order[k] = (int)k;
    for (int64 done = 0; shuffled && done < n - 1; done += DRAWN) {
        const int some = (int)(n - 1 - done < DRAWN ? n - 1 - done : DRAWN);
        for (int k = thread; k < some; k += THREADS) {
            const uint64 bits = scrambled(seed + (uint64)(done + k + 1) * 0x9e3779b97f4a7c15u);
            drawn[k] = (int)(((bits >> 32) * (uint64)(n - done - k)) >> 32);
        }
        __syncthreads();
        if (thread == 0)
            for (int k = 0; k < some; k++) {
                const int64 last = n - 1 - done - k;
                const int was = order[last];
                order[last] = order[drawn[k]];
                order[drawn[k]] = was;
            }
        __syncthreads();
    }
    __syncthreads();
    for (int64 k = thread; k < longest; k += THREADS)
        orders[g * longest + k] = k < n ? order[k] : (int)k;
}
