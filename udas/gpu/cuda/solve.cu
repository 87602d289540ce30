// Newton's linear systems H step = gradient, a block for each: Cholesky in shared memory.
//
// As udas/native/solve.cpp: a coordinate whose pivot vanishes depends on those before it, is left
// out, and the others are solved exactly. Columns are finished one after another here, so that a
// column's entries, and the updates of what is right of it, are computed side by side.

#define DEPENDENT 1e-13
#define PITCH (P | 1)

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

    int kept_columns = 0;
    double smallest = 1.0;
    for (int j = 0; j < P; j++) {
        const double left = l[j * PITCH + j];
        const bool kept = left > DEPENDENT * diagonal[j] && isfinite(left);
        const double root = kept ? sqrt(left) : 0.0;
        if (kept) {
            kept_columns++;
            smallest = fmin(smallest, left / diagonal[j]);
        }
        __syncthreads();
        for (int i = j + thread; i < P; i += THREADS)
            l[i * PITCH + j] = !kept ? 0.0 : i == j ? root : l[i * PITCH + j] / root;
        __syncthreads();
        if (kept) {
            const int below = P - j - 1;
            for (int e = thread; e < below * below; e += THREADS) {
                int i = j + 1 + e / below, k = j + 1 + e % below;
                if (k <= i)
                    l[i * PITCH + k] -= l[i * PITCH + j] * l[k * PITCH + j];
            }
        }
        __syncthreads();
    }

    for (int j = 0; j < P; j++) { // L b' = b
        const double root = l[j * PITCH + j];
        const double here = root > 0.0 ? b[j] / root : 0.0;
        __syncthreads();
        if (thread == 0)
            b[j] = here;
        for (int i = j + 1 + thread; i < P; i += THREADS)
            b[i] -= l[i * PITCH + j] * here;
        __syncthreads();
    }
    for (int j = P - 1; j >= 0; j--) { // L' step = b'
        const double root = l[j * PITCH + j];
        const double here = root > 0.0 ? b[j] / root : 0.0;
        __syncthreads();
        if (thread == 0)
            b[j] = here;
        for (int i = thread; i < j; i += THREADS)
            b[i] -= l[j * PITCH + i] * here;
        __syncthreads();
    }
    for (int j = thread; j < P; j += THREADS)
        step[g * P + j] = b[j];
    if (thread == 0) {
        rank[g] = kept_columns;
        pivot[g] = smallest;
    }
}
