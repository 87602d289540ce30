// Solves Newton's linear systems H step = gradient of many groups in one launch, one block each.
extern "C" __global__ void __launch_bounds__(THREADS)
solve(const double *hessian, const double *gradient, double *step, int64 *rank, double *pivot) {
    DYNAMIC_SHARED
    double *l = shared, *diagonal = l + P * PITCH, *b = diagonal + P;
    const int thread = threadIdx.x;
    const int64 g = blockIdx.x;
    const double *h = hessian + g * (P * (P + 1) / 2);
    for (int e = thread; e < P * P; e += THREADS) {
        int j = e / P, k = e % P;
        if (k <= j)
            l[j * PITCH + k] = h[j * (j + 1) / 2 + k];
    }
    for (int j = thread; j < P; j += THREADS)
        b[j] = gradient[g * P + j];
    __syncthreads();
    for (int j = thread; j < P; j += THREADS)
        diagonal[j] = l[j * PITCH + j];
    __syncthreads();

    const Rank found = solve_in_place(l, diagonal, b);
    for (int j = thread; j < P; j += THREADS)
        step[g * P + j] = b[j];
    if (thread == 0) {
        rank[g] = found.kept;
        pivot[g] = found.smallest;
    }
}
