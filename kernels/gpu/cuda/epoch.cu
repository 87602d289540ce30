// One stochastic epoch of many groups in one launch. One block per group trains its batches one
// after another, like kernels/native/epochs/sgd.cpp, or svrg.cpp with ANCHORED. Rows come in the
// same runs as in the CPU's kernels, so both make the same steps. Shapes: start, n_rows,
// first_step and out are (G,); out has the sums of the losses, each before its update. run_offset
// (G + 1,): start of each group's runs. all_shift and all_scale (G, d). anchor, full, all_v and
// average (NULL: not computed) are (G, d + 1). A launch ends with the batch that reaches most_rows
// rows of a group, and the next one continues from carried (G, 2 d + 7): weights, their sum, and
// other state between batches. A batch is processed 64 rows at a time. For the margins each row
// has a thread (narrow rows) or a warp. Then each feature has a thread for the gradient, which
// reads the rows again, from the cache.

#define BLOCK_ROWS 64
#define NARROW 32

struct Schedule {
    int power;
    double first, done, per_row;
};

__device__ inline double step_at(const Schedule &s, int64 row) {
    double t = 1.0 + s.done + (double)row * s.per_row;
    if (s.power == 0)
        return s.first;
    if (s.power == 1)
        return s.first / sqrt(t);
    return s.power == 2 ? s.first / t : s.first / (t * t);
}

__device__ inline double shrink(double w, double by) {
    return w > by ? w - by : w < -by ? w + by : 0.0;
}

// The sum over all threads, returned to each of them.
__device__ inline double sum_block(double v, double *room) {
    v = sum_lanes(v, 1, 32);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        room[threadIdx.x / 32] = v;
    __syncthreads();
    double total = 0.0;
    for (int i = 0; i < THREADS / 32; i++)
        total += room[i];
    return total;
}

extern "C" __global__ void __launch_bounds__(THREADS)
epoch(const T *values, const double *labels, const int64 *start, const int64 *n_rows,
      const int64 *run_offset, const int64 *run_first, const int *run_rows, LOSS_PARAMETERS,
      int fit_intercept, int d, int batch_size, int power, double done, double l1, double l2,
      const double *first_step, const double *all_shift, const double *all_scale,
      const double *anchor, const double *full, int resumed, int64 most_rows, double *carried,
      double *all_v, double *average, double *out) {
    DYNAMIC_SHARED
    __shared__ int64 rows[BLOCK_ROWS];
    __shared__ double r[BLOCK_ROWS], room[THREADS / 32];
    double *w = shared, *gradient = w + d, *sum = gradient + d, *shift = sum + d, *q = shift + d;
    double *fixed = q + d, *mu = fixed + d; // ANCHORED only
    const int thread = threadIdx.x, lane = thread % 32;
    const int64 g = blockIdx.x, at = g * (d + 1);
    if (resumed && carried[g * (2 * d + 7) + 2 * d + 5] >= (double)run_offset[g + 1])
        return; // an earlier launch reached the end
    const Labels meaning(LOSSES, (int)g);
    double v_d = all_v[at + d], sum_d = 0.0, s = 0.0, total = 0.0, steps = 0.0, part = 0.0;
    double fixed_part = 0.0, *kept = carried + g * (2 * d + 7), *others = kept + 2 * d;
    for (int k = thread; k < d; k += THREADS) {
        double scale = all_scale[g * d + k];
        w[k] = resumed ? kept[k] : all_v[at + k] * scale;
        sum[k] = resumed ? kept[d + k] : 0.0;
        gradient[k] = 0.0;
        shift[k] = all_shift[g * d + k];
        q[k] = scale * scale;
        part += w[k] * shift[k];
        if (ANCHORED) {
            fixed[k] = anchor[at + k] * scale;
            mu[k] = full[at + k] * scale;
            fixed_part += fixed[k] * shift[k];
        }
    }
    int64 run = run_offset[g], row = 0;
    int used = 0, gathered = 0;
    if (resumed) {
        v_d = others[0];
        sum_d = others[1];
        steps = others[2];
        total = thread == 0 ? others[3] : 0.0;
        row = (int64)others[4];
        run = (int64)others[5];
        used = (int)others[6];
    }
    double b = v_d - sum_block(part, room);
    double fixed_b = ANCHORED ? anchor[at + d] - sum_block(fixed_part, room) : 0.0;
    const Schedule schedule{power, first_step[g], done,
                            n_rows[g] > 0 ? 1.0 / (double)n_rows[g] : 1.0};

    const int64 end = run_offset[g + 1], until = row + most_rows;
    while (run < end && row < until) {
        int n = 0; // rows of this block, the same on all threads
        const int most = batch_size - gathered < BLOCK_ROWS ? batch_size - gathered
                                                              : BLOCK_ROWS;
        while (run < end && n < most) {
            const int left = run_rows[run] - used, take = left < most - n ? left : most - n;
            for (int i = thread; i < take; i += THREADS)
                rows[n + i] = start[g] + run_first[run] + used + i;
            n += take;
            used += take;
            if (used == run_rows[run]) {
                run++;
                used = 0;
            }
        }
        __syncthreads();
        if (d <= NARROW) {
            for (int i = thread; i < n; i += THREADS) {
                const T *x = values + rows[i] * d;
                double m = b, m_fixed = fixed_b;
                for (int k = 0; k < d; k++) {
                    m += (double)x[k] * w[k];
                    if (ANCHORED)
                        m_fixed += (double)x[k] * fixed[k];
                }
                LossValues v = evaluate(meaning, m, labels[rows[i]]);
                total += v.loss;
                r[i] = v.derivative;
                if (ANCHORED)
                    r[i] -= evaluate(meaning, m_fixed, labels[rows[i]]).derivative;
            }
        } else {
            for (int i = thread / 32; i < n; i += THREADS / 32) {
                const T *x = values + rows[i] * d;
                double m = 0.0, m_fixed = 0.0;
                for (int k = lane; k < d; k += 32) {
                    m += (double)x[k] * w[k];
                    if (ANCHORED)
                        m_fixed += (double)x[k] * fixed[k];
                }
                LossValues v = evaluate(meaning, sum_lanes(m, 1, 32) + b, labels[rows[i]]);
                double derivative = v.derivative;
                if (ANCHORED)
                    derivative -=
                        evaluate(meaning, sum_lanes(m_fixed, 1, 32) + fixed_b, labels[rows[i]])
                            .derivative;
                if (lane == 0) {
                    total += v.loss;
                    r[i] = derivative;
                }
            }
        }
        __syncthreads();
        for (int k = thread; k < d; k += THREADS) {
            double here = gradient[k];
            for (int i = 0; i < n; i++)
                here += r[i] * (double)values[rows[i] * d + k];
            gradient[k] = here;
        }
        for (int i = 0; i < n; i++)
            s += r[i];
        gathered += n;
        __syncthreads();
        if (gathered < batch_size && run < end)
            continue;

        const double step = step_at(schedule, row);
        const double each = step / (double)gathered;
        double centre = 0.0;
        for (int k = thread; k < d; k += THREADS) {
            double x = w[k] - q[k] * each * (gradient[k] - shift[k] * s);
            if (ANCHORED)
                x -= step * mu[k];
            if (l1 > 0.0)
                x = shrink(x, step * l1 * q[k]);
            if (l2 > 0.0)
                x /= 1.0 + step * l2 * q[k];
            w[k] = x;
            gradient[k] = 0.0;
            sum[k] += x;
            centre += shift[k] * x;
        }
        if (fit_intercept)
            v_d -= each * s + (ANCHORED ? step * full[at + d] : 0.0);
        b = v_d - sum_block(centre, room);
        sum_d += v_d;
        steps += 1.0;
        row += gathered;
        gathered = 0;
        s = 0.0;
    }

    total = sum_block(total, room);
    if (thread == 0)
        others[5] = (double)run;
    if (run < end) {
        for (int k = thread; k < d; k += THREADS) {
            kept[k] = w[k];
            kept[d + k] = sum[k];
        }
        if (thread == 0) {
            others[0] = v_d;
            others[1] = sum_d;
            others[2] = steps;
            others[3] = total;
            others[4] = (double)row;
            others[6] = (double)used;
        }
        return;
    }
    for (int k = thread; k < d; k += THREADS) {
        double scale = all_scale[g * d + k];
        all_v[at + k] = scale > 0.0 ? w[k] / scale : 0.0;
        if (average)
            average[at + k] = scale > 0.0 && steps > 0.0 ? sum[k] / steps / scale : 0.0;
    }
    if (thread == 0) {
        all_v[at + d] = v_d;
        if (average)
            average[at + d] = steps > 0.0 ? sum_d / steps : 0.0;
        if (out)
            out[g] = total;
    }
}
