// Newton's method for many small groups in one launch. A block runs some iterations for one group.
//
// The steps are as in learners/linear/algorithms/newton.py and search.py, the objective and its
// violation as in learners/linear/problem.py, but each iteration computes the curvature anew, in
// double. Nothing leaves the block between two passes, and the rows of such small groups come from
// the cache.

#define ROUNDING 4e-15 // for terms of size 1
#define MOST_ROUNDING 1e-6
#define SUFFICIENT 1e-4
#define MOST_TRIALS 40
#define SPARE 4 // passes of halved steps; with more the launch ends early, so that it can be cancelled

struct Group {
    const T *values;
    const double *labels;
    int n_rows;
    double label_size, gradient_unit, weight_unit, l2;
    bool fit_intercept;
};

struct Looked {
    double objective, violation, slack;
};

// Evaluates the objective at v (P,), in shared memory: the sums of add_up, and the gradient (P,) in
// coordinates of z. Every thread computes the same numbers; there are at most 64 of each.
__device__ Looked look(const Panel &s, const Group &g, const Labels &meaning, const double *v,
                       double *sums, double *gradient) {
    __syncthreads();
    for (int k = threadIdx.x; k < D; k += THREADS)
        s.w[k] = v[k] * s.scale[k];
    __syncthreads();
    double intercept = v[D], terms = fabs(v[D]) + g.label_size, penalty = 0.0;
    for (int k = 0; k < D; k++) {
        double moved = s.w[k] * s.shift[k];
        intercept -= moved;
        terms += fabs(v[k]) + fabs(moved);
        penalty += s.w[k] * s.w[k];
    }
    add_up(s, g.values, g.labels, g.n_rows, meaning, intercept, sums);
    __syncthreads();

    const double n = sums[1], slope = sums[2 + D] / n, rounding = ROUNDING * terms;
    double worst = g.fit_intercept ? fabs(slope) : 0.0;
    for (int k = 0; k < D; k++) {
        double caller = sums[2 + k] / n, scale = s.scale[k], shift = s.shift[k];
        double here = (caller - shift * slope) * scale + g.l2 * scale * s.w[k];
        worst = fmax(worst, fabs(here));
        if (threadIdx.x == k % THREADS)
            gradient[k] = here;
    }
    if (threadIdx.x == 0)
        gradient[D] = g.fit_intercept ? slope : 0.0;
    Looked found;
    found.objective = sums[0] / n + 0.5 * g.l2 * penalty;
    const double lost = fmin(rounding / g.weight_unit, MOST_ROUNDING);
    found.violation = fmax(worst / g.gradient_unit - lost, 0.0);
    double size = fabs(found.objective);
    double change = rounding * fmax(g.gradient_unit, 1.0); // the others' margins have no unit
    if (meaning.kind == SQUARED)
        change = sqrt(2.0 * size) * rounding + rounding * rounding;
    found.slack = ROUNDING * size + change;
    __syncthreads();
    return found;
}

// An entry of the curvature of the objective, from the sums.
__device__ inline double curved(const Panel &s, const Group &g, const double *sums, int j, int k) {
    double h = sums[D + 3 + j * (j + 1) / 2 + k] / sums[1];
    if (j == D && !g.fit_intercept)
        return 0.0;
    return j == k && j < D ? h + g.l2 * s.scale[j] * s.scale[j] : h;
}

// Runs up to `most` iterations from all_v (G, P), in place. Out: the state at the end (objective,
// violation and slack, (G, 3); gradients (G, P); packed curvatures), the number of iterations that
// lowered the objective, whether the last one failed to, and the objective by iteration (G, most).
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
newton(const T *values, const double *labels, const int64 *start, const int64 *n_rows,
       const double *all_shift, const double *all_scale, const double *label_size,
       const double *gradient_unit, const double *weight_unit, LOSS_PARAMETERS, int fit_intercept,
       double l2, double epsilon, int most, double *all_v, double *found, double *gradients,
       double *curvatures, int64 *iterations, int64 *stuck, double *history) {
    DYNAMIC_SHARED
    const Panel s(shared);
    const int64 which = blockIdx.x;
    const Labels meaning(LOSSES, (int)which);
    const Group g = {values + start[which] * D, labels + start[which], (int)n_rows[which],
                     label_size ? label_size[which] : 1.0,
                     gradient_unit ? gradient_unit[which] : 1.0,
                     weight_unit ? weight_unit[which] : 1.0, l2,
                     fit_intercept != 0};
    const int width = D + 3 + P * (P + 1) / 2;
    double *sums = shared + BEHIND_PANEL, *v = sums + width, *candidate = v + P;
    double *step = candidate + P, *gradient = step + P;
    double *l = s.of_rows, *diagonal = l + P * PITCH; // this memory is free while there is no panel
    for (int k = threadIdx.x; k < D; k += THREADS) {
        s.shift[k] = all_shift[which * D + k];
        s.scale[k] = all_scale[which * D + k];
    }
    for (int k = threadIdx.x; k < P; k += THREADS)
        v[k] = all_v[which * P + k];

    Looked here = look(s, g, meaning, v, sums, gradient);
    int done = 0, passes = 0;
    bool lost = false;
    while (done < most && passes < most + SPARE && !(here.violation <= epsilon)) {
        for (int e = threadIdx.x; e < P * P; e += THREADS)
            if (e % P <= e / P)
                l[e / P * PITCH + e % P] = curved(s, g, sums, e / P, e % P);
        for (int k = threadIdx.x; k < P; k += THREADS) {
            diagonal[k] = curved(s, g, sums, k, k);
            step[k] = gradient[k];
        }
        __syncthreads();
        solve_in_place(l, diagonal, step);
        double along = 0.0, by = 1.0;
        for (int k = 0; k < P; k++)
            along += gradient[k] * step[k];
        const Looked before = here;
        lost = true;
        for (int trial = 0; trial < MOST_TRIALS && lost; trial++, by *= 0.5) {
            passes++;
            for (int k = threadIdx.x; k < P; k += THREADS)
                candidate[k] = v[k] - by * step[k];
            here = look(s, g, meaning, candidate, sums, gradient);
            lost = !(here.objective <= before.objective - SUFFICIENT * by * along + before.slack);
        }
        if (lost)
            break;
        for (int k = threadIdx.x; k < P; k += THREADS)
            v[k] = candidate[k];
        if (threadIdx.x == 0)
            history[which * most + done] = here.objective;
        done++;
        __syncthreads();
    }
    if (lost)
        here = look(s, g, meaning, v, sums, gradient);

    for (int k = threadIdx.x; k < P; k += THREADS) {
        all_v[which * P + k] = v[k];
        gradients[which * P + k] = gradient[k];
    }
    for (int e = threadIdx.x; e < P * P; e += THREADS)
        if (e % P <= e / P)
            curvatures[which * (P * (P + 1) / 2) + e / P * (e / P + 1) / 2 + e % P] =
                curved(s, g, sums, e / P, e % P);
    if (threadIdx.x == 0) {
        found[3 * which] = here.objective;
        found[3 * which + 1] = here.violation;
        found[3 * which + 2] = here.slack;
        iterations[which] = done;
        stuck[which] = lost;
    }
}
