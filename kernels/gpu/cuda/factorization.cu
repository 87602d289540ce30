// Matrix factorization by stochastic gradient descent: kernels/native/factorization/train.hpp on a
// GPU.
//
// A worker is LANES lanes of a warp and trains one rating after another. It reads both vectors, 16
// bytes per lane, sums their product by shuffles and writes both back. A rating takes 16 STRIDE
// bytes of memory traffic and 6 WIDTH multiplications, so memory bandwidth is the limit, or its
// latency if there are few workers. To hide latency the worker prefetches the next rating and its
// vectors. Xie, Tan, Fong, Liang, CuMF_SGD: Parallelized Stochastic Gradient Descent for Matrix
// Factorization on GPUs, HPDC 2017, section 4; the lock-free schedule is theirs too.
//
// Reads and writes of vectors bypass the L1 caches, which do not see writes of other
// multiprocessors. Vectors are in units of the ratings' deviation: bias first, zeros from WIDTH on.

#define UNITS (STRIDE / 4) // units of 16 bytes per vector
#define EACH ((UNITS + LANES - 1) / LANES)
#define KEEPS (EACH <= 8)    // keep the vectors in registers; else read them again
#define WORKERS (64 / LANES) // workers per block

typedef unsigned long long uint64;

struct Rating {
    int user, item; // indices in the tables of vectors; below 0: a vector of zeros
    float value;
};

__device__ inline void ask_for(const void *place) {
#ifndef TUSK_ON_CPU
    asm volatile("prefetch.global.L2 [%0];" ::"l"(place));
#endif
}

template <class V> __device__ inline V sum_worker(V v) {
    const uint32 mine = (FULL >> (32 - LANES)) << (threadIdx.x % 32 / LANES * LANES);
#pragma unroll
    for (int off = LANES / 2; off > 0; off /= 2)
        v += __shfl_xor_sync(mine, v, off);
    return v;
}

// This lane's part of p.q. With biases the first numbers are added, not multiplied.
__device__ inline float product(float4 p, float4 q, bool first) {
    float rest = p.y * q.y + p.z * q.z + p.w * q.w;
    return rest + (first ? p.x + q.x : p.x * q.x);
}

__device__ inline float4 moved(float4 p, float4 q, bool first, float g, float keep_first,
                               float keep) {
    float4 to;
    to.x = first ? keep_first * p.x + g : keep * p.x + g * q.x;
    to.y = keep * p.y + g * q.y;
    to.z = keep * p.z + g * q.z;
    to.w = keep * p.w + g * q.w;
    return to;
}

// Takes one step for each rating of chunks order[0], order[1], ... Chunk c has ratings start[c] to
// start[c + 1] - 1. Adds the squared errors, each before its step, to sums, one per worker.
extern "C" __global__ void __launch_bounds__(64)
    train_ratings(const Rating *ratings, const int64 *start, const int *order, int64 n_chunks,
                  int64 workers, float step, float keep_first, float keep, float *users,
                  float *items, double *sums) {
    const int lane = threadIdx.x % LANES;
    const int64 worker = (int64)blockIdx.x * WORKERS + threadIdx.x / LANES;
    if (worker >= workers)
        return;
    double total = 0.0;
    for (int64 c = worker; c < n_chunks; c += workers) {
        const int64 last = start[order[c] + 1];
        int64 k = start[order[c]];
        if (k >= last)
            continue;
        Rating next = ratings[k];
        for (; k < last; k++) {
            const Rating r = next;
            if (k + 1 < last)
                next = ratings[k + 1];
            float4 *p = (float4 *)(users + (int64)r.user * STRIDE);
            float4 *q = (float4 *)(items + (int64)r.item * STRIDE);
            float dot = 0.0f;
#if KEEPS
            float4 a[EACH], b[EACH];
#endif
#pragma unroll
            for (int u = 0; u < EACH; u++) {
                const int unit = u * LANES + lane;
                if (UNITS % LANES == 0 || unit < UNITS) {
#if KEEPS
                    a[u] = __ldcg(p + unit);
                    b[u] = __ldcg(q + unit);
                    dot += product(a[u], b[u], BIASES && unit == 0);
#else
                    dot += product(__ldcg(p + unit), __ldcg(q + unit), BIASES && unit == 0);
#endif
                }
            }
            const float e = r.value - sum_worker(dot), g = step * e;
            total += (double)(e * e);
#pragma unroll
            for (int u = 0; u < EACH; u++) {
                const int unit = u * LANES + lane;
                if (UNITS % LANES == 0 || unit < UNITS) {
                    ask_for(users + (int64)next.user * STRIDE + 4 * unit);
                    ask_for(items + (int64)next.item * STRIDE + 4 * unit);
#if KEEPS
                    const float4 here = a[u], there = b[u];
#else
                    const float4 here = __ldcg(p + unit), there = __ldcg(q + unit);
#endif
                    const bool first = BIASES && unit == 0;
                    p[unit] = moved(here, there, first, g, keep_first, keep);
                    q[unit] = moved(there, here, first, g, keep_first, keep);
                }
            }
        }
    }
    if (lane == 0)
        sums[worker] += total;
}

// Computes sums of squared errors, one per worker. Each worker takes neighbouring ratings.
extern "C" __global__ void __launch_bounds__(64)
    rating_errors(const Rating *ratings, int64 n, int64 workers, const float *users,
                  const float *items, double *sums) {
    const int lane = threadIdx.x % LANES;
    const int64 worker = (int64)blockIdx.x * WORKERS + threadIdx.x / LANES;
    if (worker >= workers)
        return;
    const int64 last = n * (worker + 1) / workers;
    double total = 0.0;
    for (int64 k = n * worker / workers; k < last; k++) {
        const Rating r = ratings[k];
        const float4 *p = (const float4 *)(users + (int64)r.user * STRIDE);
        const float4 *q = (const float4 *)(items + (int64)r.item * STRIDE);
        const float4 zeros = {0.0f, 0.0f, 0.0f, 0.0f};
        float dot = 0.0f;
        for (int unit = lane; unit < UNITS; unit += LANES) {
            const float4 a = r.user < 0 ? zeros : p[unit], b = r.item < 0 ? zeros : q[unit];
            dot += product(a, b, BIASES && unit == 0);
        }
        const float e = r.value - sum_worker(dot);
        total += (double)(e * e);
    }
    if (lane == 0)
        sums[worker] = total;
}

// Computes the sum over ratings of |vector|^2, one sum per worker: a vector counts as often as it
// has ratings. The square of its first number is multiplied by first_factor.
extern "C" __global__ void __launch_bounds__(64)
    squares(const float *vectors, const int64 *count, int64 n, int64 workers, double first_factor,
            double *sums) {
    const int lane = threadIdx.x % LANES;
    const int64 worker = (int64)blockIdx.x * WORKERS + threadIdx.x / LANES;
    if (worker >= workers)
        return;
    double total = 0.0;
    for (int64 place = worker; place < n; place += workers) {
        const float *v = vectors + place * STRIDE;
        double here = 0.0;
        for (int k = lane; k < STRIDE; k += LANES)
            here += (k == 0 ? first_factor : 1.0) * ((double)v[k] * (double)v[k]);
        total += (double)count[place] * here;
    }
    total = sum_worker(total);
    if (lane == 0)
        sums[worker] = total;
}

__device__ inline uint64 scrambled(uint64 x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// Draws the initial vectors by id, as the CPU's kernels do: biases 0, factors uniform in +-spread.
extern "C" __global__ void __launch_bounds__(64)
    start_vectors(const int64 *ids, int64 n, uint64 seed, float spread, float *vectors) {
    const int64 at = (int64)blockIdx.x * 64 + threadIdx.x, place = at / STRIDE;
    const int k = (int)(at % STRIDE);
    if (place >= n)
        return;
    const uint64 state = scrambled(seed ^ (uint64)ids[place]);
    const float unit = (float)(scrambled(state + (uint64)(k - BIASES)) >> 40) / 8388608.0f - 1.0f;
    vectors[at] = k < BIASES || k >= WIDTH ? 0.0f : spread * unit;
}
