// Margins of rows of any width for one model. Each row has a warp and is read once.
extern "C" __global__ void __launch_bounds__(256)
margins(const T *values, int64 n_rows, int64 d, const double *w, double *out) {
    const int lane = threadIdx.x % 32;
    const int64 row = (int64)blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= n_rows)
        return;
    const T *x = values + row * d;
    double m = 0.0;
#pragma unroll 8
    for (int64 k = lane; k < d; k += 32)
        m += (double)x[k] * w[k];
    m = sum_lanes(m, 1, 32);
    if (lane == 0)
        out[row] = m + w[d];
}
