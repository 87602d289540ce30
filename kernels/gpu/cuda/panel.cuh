// Losses, gradient and curvature H = sum h_i z_i z_i' for D <= 64 features, by one block. Here
// z = ((x - shift) * scale, 1) and h_i = l''(m_i).
//
// PANEL rows at a time form a panel of sqrt(h_i) z_i in shared memory. They are centred and scaled,
// so that float is precise enough (else E is double: `precise`, or rows of doubles). H's lower
// triangle is cut into TILES tiles of 4 x 4. A thread keeps one tile in registers and adds up the
// products of every SLICES-th row of the panel, in E within a panel and in double over panels. 16
// multiplications take two reads of four values from shared memory, so arithmetic is the limit.

#define P (D + 1)
#define SIDE ((P + 3) / 4)
#define TILES (SIDE * (SIDE + 1) / 2)
#define SLICES (THREADS / TILES)
#define X_STRIDE (D | 1)        // odd, so that threads that walk rows read from different banks
#define P_STRIDE (4 * SIDE + 4) // a multiple of 4
#define G_SLICES (THREADS / D)

struct alignas(4 * sizeof(E)) Four {
    E v[4];
};


// A block's shared memory. `room` is used last and takes up to 16 THREADS doubles.
struct Panel {
    double *w, *shift, *scale, *r, *root, *room;
    E *panel;
    T *x;

    __device__ explicit Panel(double *memory) {
        w = memory;
        shift = w + D;
        scale = shift + D;
        r = scale + D;
        root = r + PANEL;
        room = root + PANEL;
        panel = (E *)(room + (4 - (room - memory) % 4) % 4);
        x = (T *)(panel + PANEL * P_STRIDE);
    }
};

// The position of this thread's tile in H, and the feature whose gradient it adds up.
struct Place {
    int tall, across, slice, feature, part;

    __device__ Place() {
        const int tile = threadIdx.x % TILES;
        slice = threadIdx.x / TILES;
        tall = 0;
        while ((tall + 1) * (tall + 2) / 2 <= tile)
            tall++;
        across = tile - tall * (tall + 1) / 2;
        feature = threadIdx.x % D;
        part = threadIdx.x / D;
    }
};

// Writes sums over n_rows rows to `to` (D + 3 + P (P + 1) / 2,) in the caller's layout: loss, rows,
// gradient, gradient of the intercept, H's lower triangle. w, shift and scale must be set before.
// All threads may read `to` after the next barrier.
__device__ inline void add_up(const Panel &s, const T *values, const double *labels, int n_rows,
                              const Labels &meaning, double intercept, double *to) {
    const int thread = threadIdx.x;
    const Place place;
    double h_sums[16], g = 0.0, loss = 0.0, slope = 0.0;
#pragma unroll
    for (int k = 0; k < 16; k++)
        h_sums[k] = 0.0;

    for (int at = 0; at < n_rows; at += PANEL) {
        const int n = n_rows - at < PANEL ? n_rows - at : PANEL;
        const T *rows = values + (int64)at * D;
        __syncthreads();
        for (int e = thread; e < n * D; e += THREADS)
            s.x[e / D * X_STRIDE + e % D] = rows[e];
        __syncthreads();
        if (thread < PANEL) {
            double m = intercept, h = 0.0, slope_here = 0.0;
            if (thread < n) {
                for (int k = 0; k < D; k++)
                    m += (double)s.x[thread * X_STRIDE + k] * s.w[k];
                LossValues v = evaluate(meaning, m, labels[at + thread]);
                loss += v.loss;
                slope_here = v.derivative;
                h = v.curvature;
            }
            slope += slope_here;
            s.r[thread] = slope_here;
            s.root[thread] = sqrt(h);
        }
        __syncthreads();
        for (int e = thread; e < n * P_STRIDE; e += THREADS) {
            int i = e / P_STRIDE, k = e % P_STRIDE;
            double z = k < D ? ((double)s.x[i * X_STRIDE + k] - s.shift[k]) * s.scale[k] : k == D;
            s.panel[e] = (E)(z * s.root[i]);
        }
        if (place.part < G_SLICES)
            for (int i = place.part; i < n; i += G_SLICES)
                g += s.r[i] * (double)s.x[i * X_STRIDE + place.feature];
        __syncthreads();
        if (place.slice < SLICES) {
            E sums[16];
#pragma unroll
            for (int k = 0; k < 16; k++)
                sums[k] = 0;
#pragma unroll 2
            for (int i = place.slice; i < n; i += SLICES) {
                Four a = *(const Four *)(s.panel + i * P_STRIDE + 4 * place.tall);
                Four b = *(const Four *)(s.panel + i * P_STRIDE + 4 * place.across);
#pragma unroll
                for (int k = 0; k < 16; k++)
                    sums[k] += a.v[k / 4] * b.v[k % 4];
            }
#pragma unroll
            for (int k = 0; k < 16; k++)
                h_sums[k] += (double)sums[k];
        }
    }

    __syncthreads();
    if (thread < PANEL) {
        s.r[thread] = loss;
        s.root[thread] = slope;
    }
    if (place.part < G_SLICES)
        s.room[thread] = g;
    __syncthreads();
    if (thread == 0) {
        double total = 0.0, total_slope = 0.0;
        for (int i = 0; i < PANEL; i++) {
            total += s.r[i];
            total_slope += s.root[i];
        }
        to[0] = total;
        to[1] = (double)n_rows;
        to[2 + D] = total_slope;
    }
    if (thread < D) {
        double total = 0.0;
        for (int i = 0; i < G_SLICES; i++)
            total += s.room[i * D + thread];
        to[2 + thread] = total;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; k++)
        s.room[thread * 16 + k] = h_sums[k];
    __syncthreads();
    for (int e = thread; e < TILES * 16; e += THREADS) {
        int which = e / 16, down = 0;
        while ((down + 1) * (down + 2) / 2 <= which)
            down++;
        int row = 4 * down + e % 16 / 4, column = 4 * (which - down * (down + 1) / 2) + e % 4;
        if (row >= P || column > row)
            continue;
        double total = 0.0;
        for (int other = 0; other < SLICES; other++)
            total += s.room[other * TILES * 16 + e];
        to[D + 3 + row * (row + 1) / 2 + column] = total;
    }
}
