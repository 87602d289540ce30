// Rows that are too wide for a warp's registers take two passes: first each row's margin, loss and
// derivatives, then the sums of the columns. All sums are in double, unlike cuBLAS for floats.
// Memory bandwidth is the limit nevertheless.

// One warp per row. derivative and curvature (NULL: not computed) are by row of `values`.
extern "C" __global__ void __launch_bounds__(256)
wide_rows(const T *values, const double *labels, const Chunk *chunks, const double *weights,
          LOSS_PARAMETERS, int64 d, int64 width, double *derivative, double *curvature,
          double *out) {
    __shared__ double losses_of[8], slopes[8];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Chunk c = chunks[blockIdx.x];
    const Labels meaning(LOSSES, c.group);
    const double *w = weights + (int64)c.group * (d + 1);
    double loss = 0.0, slope = 0.0;
    for (int i = warp; i < c.rows; i += 8) {
        const T *x = values + (c.first + i) * d;
        double m = 0.0;
#pragma unroll 8
        for (int64 k = lane; k < d; k += 32)
            m += (double)x[k] * w[k];
        LossValues v =
            evaluate(meaning, sum_lanes(m, 1, 32) + w[d], labels[c.first + i]);
        loss += v.loss;
        slope += v.derivative;
        if (lane == 0) {
            derivative[c.first + i] = v.derivative;
            if (curvature)
                curvature[c.first + i] = v.curvature;
        }
    }
    if (lane == 0) {
        losses_of[warp] = loss;
        slopes[warp] = slope;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int other = 1; other < 8; other++) {
            loss += losses_of[other];
            slope += slopes[other];
        }
        double *to = out + c.place * width;
        to[0] = loss;
        to[1] = (double)c.rows;
        if (width > 2)
            to[2 + d] = slope;
    }
}

// One thread per column of a chunk.
extern "C" __global__ void __launch_bounds__(256)
wide_columns(const T *values, const Chunk *chunks, int64 d, int64 width, const double *derivative,
             double *out) {
    const Chunk c = chunks[blockIdx.x];
    const int64 k = (int64)blockIdx.y * 256 + threadIdx.x;
    if (k >= d)
        return;
    double g = 0.0;
#pragma unroll 8
    for (int i = 0; i < c.rows; i++)
        g += derivative[c.first + i] * (double)values[(c.first + i) * d + k];
    out[c.place * width + 2 + k] = g;
}

// Writes panel (n, d + 1): sqrt(h_i) z_i of the rows from `first` on. cuBLAS then multiplies the
// panel with itself.
extern "C" __global__ void __launch_bounds__(256)
wide_panel(const T *values, int64 first, const double *curvature, const double *shift,
           const double *scale, int64 d, E *panel) {
    const int64 i = blockIdx.x, k = (int64)blockIdx.y * 256 + threadIdx.x;
    if (k > d)
        return;
    double z = k < d ? ((double)values[(first + i) * d + k] - shift[k]) * scale[k] : 1.0;
    panel[i * (d + 1) + k] = (E)(z * sqrt(curvature[first + i]));
}
