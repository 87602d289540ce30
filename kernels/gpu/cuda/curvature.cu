// Computes the sums of `panel.cuh` for many groups in one launch, with one block per chunk.
extern "C" __global__ void __launch_bounds__(THREADS)
curvature(const T *values, const double *labels, const Chunk *chunks, const double *weights,
          const double *all_shift, const double *all_scale, LOSS_PARAMETERS, double *out) {
    DYNAMIC_SHARED
    const Panel s(shared);
    const Chunk c = chunks[blockIdx.x];
    const Labels meaning(LOSSES, c.group);
    const double *given = weights + (int64)c.group * P;
    for (int k = threadIdx.x; k < D; k += THREADS) {
        s.w[k] = given[k];
        s.shift[k] = all_shift[(int64)c.group * D + k];
        s.scale[k] = all_scale[(int64)c.group * D + k];
    }
    const int width = D + 3 + P * (P + 1) / 2;
    add_up(s, values + c.first * D, labels + c.first, c.rows, meaning, given[D],
           out + c.place * width);
}
