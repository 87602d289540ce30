// Losses, gradient and curvature H = sum h_i z_i z_i' of D <= 64 features, z = ((x - shift) *
// scale, 1) and h_i = l''(m_i), of many groups in one launch: a block for each chunk.
//
// PANEL rows at a time become a panel of sqrt(h_i) z_i in shared memory, centred and scaled so that
// float keeps what matters (E is double where it does not: `precise`, or rows of doubles). H's
// lower triangle is cut into TILES tiles of 4 x 4; a thread owns one in registers and adds up the
// products of every SLICES-th row of the panel, in E within a panel and in double beyond. 16
// multiplications take two reads of four values from shared memory, so arithmetic is the bound.

#define P (D + 1)
#define SIDE ((P + 3) / 4)
#define TILES (SIDE * (SIDE + 1) / 2)
#define SLICES (THREADS / TILES)
#define X_STRIDE (D | 1)        // odd: threads that walk rows read from different banks
#define P_STRIDE (4 * SIDE + 4) // a multiple of 4
#define G_SLICES (THREADS / D)

struct alignas(4 * sizeof(E)) Four {
    E v[4];
};

extern "C" __global__ void __launch_bounds__(THREADS)
curvature(const T *values, const double *labels, const Chunk *chunks, const double *weights,
          const double *all_shift, const double *all_scale, LOSS_PARAMETERS, double *out) {
    DYNAMIC_SHARED
    double *w = shared, *shift = w + D, *scale = shift + D, *r = scale + D, *root = r + PANEL;
    double *room = root + PANEL; // sums of slices at the end; until then a panel and its rows
    E *panel = (E *)(room + (4 - (room - shared) % 4) % 4);
    T *x = (T *)(panel + PANEL * P_STRIDE);
    const int thread = threadIdx.x;
    const Chunk c = chunks[blockIdx.x];
    const Labels meaning(LOSSES, c.group);
    const double *given = weights + (int64)c.group * P, intercept = given[D];
    for (int k = thread; k < D; k += THREADS) {
        w[k] = given[k];
        shift[k] = all_shift[(int64)c.group * D + k];
        scale[k] = all_scale[(int64)c.group * D + k];
    }

    const int tile = thread % TILES, slice = thread / TILES;
    int tall = 0;
    while ((tall + 1) * (tall + 2) / 2 <= tile)
        tall++;
    const int across = tile - tall * (tall + 1) / 2;
    const int feature = thread % D, part = thread / D;
    double h_sums[16], g = 0.0, loss = 0.0, slope = 0.0;
#pragma unroll
    for (int k = 0; k < 16; k++)
        h_sums[k] = 0.0;

    for (int at = 0; at < c.rows; at += PANEL) {
        const int n = c.rows - at < PANEL ? c.rows - at : PANEL;
        const T *rows = values + (c.first + at) * D;
        __syncthreads();
        for (int e = thread; e < n * D; e += THREADS)
            x[e / D * X_STRIDE + e % D] = rows[e];
        __syncthreads();
        if (thread < PANEL) {
            double m = intercept, h = 0.0, slope_here = 0.0;
            if (thread < n) {
                for (int k = 0; k < D; k++)
                    m += (double)x[thread * X_STRIDE + k] * w[k];
                LossValues v = evaluate(meaning, m, labels[c.first + at + thread]);
                loss += v.loss;
                slope_here = v.derivative;
                h = v.curvature;
            }
            slope += slope_here;
            r[thread] = slope_here;
            root[thread] = sqrt(h);
        }
        __syncthreads();
        for (int e = thread; e < n * P_STRIDE; e += THREADS) {
            int i = e / P_STRIDE, k = e % P_STRIDE;
            double z = k < D ? ((double)x[i * X_STRIDE + k] - shift[k]) * scale[k] : k == D;
            panel[e] = (E)(z * root[i]);
        }
        if (part < G_SLICES)
            for (int i = part; i < n; i += G_SLICES)
                g += r[i] * (double)x[i * X_STRIDE + feature];
        __syncthreads();
        if (slice < SLICES) {
            E sums[16];
#pragma unroll
            for (int k = 0; k < 16; k++)
                sums[k] = 0;
#pragma unroll 2
            for (int i = slice; i < n; i += SLICES) {
                Four a = *(const Four *)(panel + i * P_STRIDE + 4 * tall);
                Four b = *(const Four *)(panel + i * P_STRIDE + 4 * across);
#pragma unroll
                for (int k = 0; k < 16; k++)
                    sums[k] += a.v[k / 4] * b.v[k % 4];
            }
#pragma unroll
            for (int k = 0; k < 16; k++)
                h_sums[k] += (double)sums[k];
        }
    }

    const int width = D + 3 + P * (P + 1) / 2;
    double *to = out + c.place * width;
    __syncthreads();
    if (thread < PANEL) {
        r[thread] = loss;
        root[thread] = slope;
    }
    if (part < G_SLICES)
        room[thread] = g;
    __syncthreads();
    if (thread == 0) {
        double total = 0.0, total_slope = 0.0;
        for (int i = 0; i < PANEL; i++) {
            total += r[i];
            total_slope += root[i];
        }
        to[0] = total;
        to[1] = (double)c.rows;
        to[2 + D] = total_slope;
    }
    if (thread < D) {
        double total = 0.0;
        for (int i = 0; i < G_SLICES; i++)
            total += room[i * D + thread];
        to[2 + thread] = total;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; k++)
        room[thread * 16 + k] = h_sums[k];
    __syncthreads();
    for (int e = thread; e < TILES * 16; e += THREADS) {
        int which = e / 16, down = 0;
        while ((down + 1) * (down + 2) / 2 <= which)
            down++;
        int row = 4 * down + e % 16 / 4, column = 4 * (which - down * (down + 1) / 2) + e % 4;
        if (row >= P || column > row)
            continue;
        double total = 0.0;
        for (int s = 0; s < SLICES; s++)
            total += room[s * TILES * 16 + e];
        to[D + 3 + row * (row + 1) / 2 + column] = total;
    }
}
