// Losses and gradient for D <= 1024 features. Every row is read once.
//
// The kernel is bound by memory: a value takes 4 bytes, two multiplications in double and two
// conversions. An H200 reads about 4 TB/s, or 1.1e12 values per second. Its 132 SMs multiply
// 1.7e13 doubles and convert (16 per clock and SM) 3.7e12 values per second. So all arithmetic can
// be in double, as in the CPU's kernels, without slowing the kernel down.
//
// A warp copies tiles of ROWS rows into its own part of shared memory by cp.async, 16 bytes per
// lane, STAGES - 1 tiles ahead. At 4 TB/s and a latency of some 700 ns about 25 KB per SM must be
// in flight. The tiles ahead are enough for that at any occupancy that registers allow. The loop
// has no block barrier. LANES lanes share a row, and each keeps FEATURES sums of the gradient in
// registers for the whole chunk. Margins are summed over lanes by recursive halving, so that each
// lane ends with the margin of one row and each row's loss is evaluated once. Rows in shared memory
// are STRIDE values apart, so that lanes read from different banks.
//
// There are no atomic additions. Each chunk has its own row of sums, added in a fixed order.

#define GROUPS (32 / LANES)       // groups of lanes: rows processed at a time
#define ROWS (GROUPS * STEPS)     // rows per tile
#define UNITS (D / VEC)           // values are read VEC at a time
#define EACH ((UNITS + LANES - 1) / LANES)
#define FEATURES (EACH * VEC)     // features per lane
#define WIDE (EACH * LANES * VEC) // D, padded
#define BEFORE_TILES ((WIDE + 1) / 2 * 2) // tiles begin at multiples of 16 bytes
#define TILE (ROWS * STRIDE)

struct alignas(VEC * sizeof(T)) Unit {
    T v[VEC];
};

__device__ inline void copy_tile(T *tile, const T *rows, int lane) {
#if FLAT // the size of a tile is a multiple of 16 bytes, but not the size of a row
    const int n = ROWS * D * (int)sizeof(T) / 16;
#pragma unroll 4
    for (int u = lane; u < n; u += 32)
        copy_async<16>((char *)tile + 16 * u, (const char *)rows + 16 * u);
#else
#pragma unroll 4
    for (int u = lane; u < ROWS * UNITS; u += 32)
        copy_async<VEC * (int)sizeof(T)>(tile + u / UNITS * STRIDE + u % UNITS * VEC,
                                         rows + (int64)u * VEC);
#endif
}

// Sums m[s], each lane's part of the margin of row s, over LANES lanes. Returns the margin of row
// lane / (LANES / STEPS). Recursive halving takes 2 STEPS - 2 + log2(LANES / STEPS) exchanges
// instead of STEPS log2(LANES).
__device__ inline double sum_margins(double *m, int j) {
    int count = STEPS;
#pragma unroll
    for (int off = LANES / 2; off > 0; off /= 2) {
        bool upper = j & off;
        if (count > 1) {
            count /= 2;
#pragma unroll
            for (int i = 0; i < STEPS / 2; i++)
                if (i < count) {
                    double kept = upper ? m[i + count] : m[i], sent = upper ? m[i] : m[i + count];
                    m[i] = kept + __shfl_xor_sync(FULL, sent, off);
                }
        } else {
            m[0] += __shfl_xor_sync(FULL, m[0], off);
        }
    }
    return m[0];
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
gradient(const T *values, const double *labels, const Chunk *chunks, const double *weights,
         LOSS_PARAMETERS, int loss_only, double *out) {
    DYNAMIC_SHARED
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int j = lane % LANES, group = lane / LANES;
    const Chunk c = chunks[blockIdx.x];
    const Labels meaning(LOSSES, c.group);
    const double *given = weights + (int64)c.group * (D + 1), intercept = given[D];

    double *w = shared;
    T *tiles = (T *)(shared + BEFORE_TILES) + warp * STAGES * TILE;
    for (int k = threadIdx.x; k < WIDE; k += 32 * WARPS)
        w[k] = k < D ? given[k] : 0.0;
    __syncthreads();
#if KEEP_WEIGHTS // weights stay in registers; else they are read again for each tile
    double own_w[FEATURES];
#pragma unroll
    for (int k = 0; k < FEATURES; k++)
        own_w[k] = w[(k / VEC * LANES + j) * VEC + k % VEC];
#endif

    const int n = (c.rows + ROWS - 1) / ROWS;
    for (int ahead = 0; ahead < STAGES - 1; ahead++) {
        int t = warp + ahead * WARPS;
        if (t < n)
            copy_tile(tiles + ahead * TILE, values + (c.first + (int64)t * ROWS) * D, lane);
        end_of_copies();
    }

    const int step = j / (LANES / STEPS); // step of the row whose loss this lane evaluates
    const bool evaluates = j % (LANES / STEPS) == 0;
    double g[FEATURES], loss = 0.0, slope = 0.0;
#pragma unroll
    for (int k = 0; k < FEATURES; k++)
        g[k] = 0.0;

    // Labels are loaded a tile ahead of their use, as the tiles are.
    const int own = step * GROUPS + group;
    const int before = warp * ROWS + own;
    double next_label = evaluates && before < c.rows ? labels[c.first + before] : 0.0;
    int stage = 0;
    for (int t = warp; t < n; t += WARPS) {
        int next = t + (STAGES - 1) * WARPS;
        if (next < n)
            copy_tile(tiles + (stage + STAGES - 1) % STAGES * TILE,
                      values + (c.first + (int64)next * ROWS) * D, lane);
        end_of_copies();
        const bool mine = evaluates && t * ROWS + own < c.rows;
        const int following = (t + WARPS) * ROWS + own;
        const double y = next_label;
        next_label = evaluates && following < c.rows ? labels[c.first + following] : 0.0;
        await_copies<STAGES - 1>();
        __syncwarp();

        const T *x = tiles + stage * TILE + group * STRIDE;
        double m[STEPS];
#pragma unroll
        for (int s = 0; s < STEPS; s++)
            m[s] = 0.0;
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            int unit = u * LANES + j;
            if (UNITS % LANES == 0 || unit < UNITS) {
#pragma unroll
                for (int s = 0; s < STEPS; s++) {
                    Unit a = *(const Unit *)(x + s * GROUPS * STRIDE + unit * VEC);
#pragma unroll
                    for (int v = 0; v < VEC; v++) {
#if KEEP_WEIGHTS
                        m[s] += (double)a.v[v] * own_w[u * VEC + v];
#else
                        m[s] += (double)a.v[v] * w[unit * VEC + v];
#endif
                    }
                }
            }
        }
        LossValues here = evaluate(meaning, sum_margins(m, j) + intercept, y);
        double r = mine ? here.derivative : 0.0;
        loss += mine ? here.loss : 0.0;
        slope += r;
        if (!loss_only) {
#pragma unroll
            for (int s = 0; s < STEPS; s++) {
                double rs = __shfl_sync(FULL, r, group * LANES + s * (LANES / STEPS));
#pragma unroll
                for (int u = 0; u < EACH; u++) {
                    int unit = u * LANES + j;
                    if (UNITS % LANES == 0 || unit < UNITS) {
                        Unit a = *(const Unit *)(x + s * GROUPS * STRIDE + unit * VEC);
#pragma unroll
                        for (int v = 0; v < VEC; v++)
                            g[u * VEC + v] += rs * (double)a.v[v];
                    }
                }
            }
        }
        __syncwarp(); // the next copy overwrites the tile
        stage = (stage + 1) % STAGES;
    }
    await_copies<0>();
    __syncthreads();

    // Sums of the warps, in the caller's layout: loss, rows, gradient, gradient of the intercept.
    loss = sum_lanes(loss, 1, 32);
    slope = sum_lanes(slope, 1, 32);
    double *mine = shared + warp * (D + 3);
    if (lane == 0) {
        mine[0] = loss;
        mine[1] = warp == 0 ? (double)c.rows : 0.0;
        mine[2 + D] = slope;
    }
#pragma unroll
    for (int k = 0; k < FEATURES; k++) {
        double total = sum_lanes(g[k], LANES, 32);
        int feature = (k / VEC * LANES + j) * VEC + k % VEC;
        if (group == 0 && feature < D)
            mine[2 + feature] = total;
    }
    __syncthreads();
    const int width = loss_only ? 2 : D + 3;
    for (int k = threadIdx.x; k < width; k += 32 * WARPS) {
        double total = 0.0;
        for (int other = 0; other < WARPS; other++)
            total += shared[other * (D + 3) + k];
        out[c.place * width + k] = total;
    }
}
