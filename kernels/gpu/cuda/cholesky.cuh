// Solves H step = gradient by Cholesky, in the shared memory of one block.
//
// As in kernels/native/linear/systems/factor.hpp, a coordinate whose pivot vanishes depends on
// earlier ones. It is left out, and the others are solved exactly. Columns are finished one after
// another, so that the threads compute a column's entries, and the updates to its right, in
// parallel.

#define DEPENDENT 1e-13
#define PITCH (P | 1)

struct Rank {
    int kept;
    double smallest; // smallest pivot that is not left out, relative to H's diagonal
};

// l: in, H's lower triangle with rows PITCH apart; out, its factor. diagonal (P,): H's diagonal.
// b (P,): in, the gradient; out, the step. The caller needs a barrier between writing these and
// the call, but none after the call.
__device__ inline Rank solve_in_place(double *l, const double *diagonal, double *b) {
    const int thread = threadIdx.x;
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
    return {kept_columns, smallest};
}
