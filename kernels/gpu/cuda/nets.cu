// Training of many dense nets by stochastic gradient descent: one block per net makes its steps
// one after another, with the objective and the steps of kernels/native/nets.
//
// A net of a few thousand weights keeps a GPU busy only beside many others, and a launch per
// operation takes longer than the operation. So weights, gradient and a batch's activations stay
// in shared memory, and a launch makes all steps of an epoch.
//
// SIZES: the inputs, the units of each layer, and the outputs. A layer's matrix is (in + 1, out)
// with the biases as the last row; the rows of all matrices and of the activations have an odd
// stride, so that lanes that read down a column use different banks. Activations have a column of
// ones behind the last unit, for the biases.

constexpr __device__ int size_of(int layer) {
    const int sizes[] = {SIZES};
    return sizes[layer];
}

constexpr __device__ int weights_before(int layer) {
    int n = 0;
    for (int l = 0; l < layer; l++)
        n += (size_of(l) + 1) * (size_of(l + 1) | 1);
    return n;
}

constexpr __device__ int values_before(int layer) {
    int n = 0;
    for (int l = 0; l < layer; l++)
        n += ROWS * ((size_of(l) + 1) | 1);
    return n;
}

// Of layer L: its units, the floats from one row of its matrix to the next, those from one row's
// activations to the next row's, and the floats of matrices and of activations before it.
template <int L> constexpr int UNITS = size_of(L);
template <int L> constexpr int STRIDE = size_of(L) | 1;
template <int L> constexpr int ROW = (size_of(L) + 1) | 1;
template <int L> constexpr int BEFORE = weights_before(L);
template <int L> constexpr int PLACE = values_before(L);

#define WEIGHTS BEFORE<LAYERS>

// A block's memory. values: of layers 0 to LAYERS - 1, their inputs; deltas: of layers 1 to
// LAYERS, first the slopes of the activations, then the derivatives of the loss.
struct Space {
    float *weights, *gradient, *values, *deltas, *labels, *shares;

    __device__ explicit Space(double *memory) {
        weights = (float *)memory;
        gradient = weights + WEIGHTS;
        values = gradient + WEIGHTS;
        deltas = values + PLACE<LAYERS>;
        labels = deltas + PLACE<LAYERS + 1> - PLACE<1>;
        shares = labels + ROWS;
    }

    __device__ float *state() { return shares + ROWS; }
    template <int L> __device__ float *value() { return values + PLACE<L>; }
    template <int L> __device__ float *delta() { return deltas + PLACE<L> - PLACE<1>; }
};

// The value of a hidden unit; leaves its slope.
__device__ inline float activated(float z, float *slope) {
#if ACTIVATION == 0
    *slope = z > 0.0f ? 1.0f : 0.0f;
    return z < 0.0f ? z * 0.0f : z;
#elif ACTIVATION == 1
    const float value = tanhf(z);
    *slope = 1.0f - value * value;
    return value;
#else // formula 7.1.26 of Abramowitz and Stegun
    const float size = fabsf(z) * 0.707106781f, e = expf(-size * size);
    const float t = 1.0f / (1.0f + 0.3275911f * size);
    float p = t * 1.061405429f - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    const float tail = 0.5f * p * t * e, below = z < 0.0f ? tail : 1.0f - tail;
    *slope = below + z * e * 0.398942280f;
    return z * below;
#endif
}

// The loss of a row; its margins become the derivatives by them.
__device__ inline float loss_of(float *m, float y) {
    constexpr int outputs = UNITS<LAYERS>;
#if LOSS == 0
    m[0] -= y;
    return 0.5f * m[0] * m[0];
#elif LOSS == 1
    const float z = m[0], e = expf(-fabsf(z));
    m[0] = (z < 0.0f ? e : 1.0f) / (1.0f + e) - y;
    return (z < 0.0f ? 0.0f * z : z) - y * z + log1pf(e);
#else
    float most = m[0], total = 0.0f, own = 0.0f;
    for (int k = 1; k < outputs; k++)
        most = m[k] > most || m[k] != m[k] ? m[k] : most;
    for (int k = 0; k < outputs; k++) {
        own = k == (int)y ? m[k] : own;
        m[k] = expf(m[k] - most);
        total += m[k];
    }
    for (int k = 0; k < outputs; k++)
        m[k] = m[k] / total - (k == (int)y ? 1.0f : 0.0f);
    return most + logf(total) - own;
#endif
}

// Number of rows that a thread computes for a unit: four if that leaves work for all threads.
constexpr __device__ int at_once(int items) {
    return items >= 4 * THREADS ? 4 : 1;
}

// Forward pass through layer L and later ones.
template <int L> __device__ inline void forward(Space s, int rows) {
    constexpr int in = UNITS<L>, out = UNITS<L + 1>, EACH = at_once(ROWS * out);
    const float *x = s.value<L>(), *w = s.weights + BEFORE<L>;
    for (int item = threadIdx.x; item < ROWS / EACH * out; item += THREADS) {
        const int j = item % out, row = item / out * EACH;
        if (row >= rows)
            break;
        float z[EACH] = {};
        for (int i = 0; i <= in; i++) {
            const float weight = w[i * STRIDE<L + 1> + j];
#pragma unroll
            for (int r = 0; r < EACH; r++)
                z[r] += x[(row + r) * ROW<L> + i] * weight;
        }
#pragma unroll
        for (int r = 0; r < EACH; r++) {
            float *to = s.delta<L + 1>() + (row + r) * ROW<L + 1> + j;
            if constexpr (L + 1 < LAYERS)
                s.value<L + 1>()[(row + r) * ROW<L + 1> + j] = activated(z[r], to);
            else
                *to = z[r];
        }
    }
    __syncthreads();
    if constexpr (L + 1 < LAYERS)
        forward<L + 1>(s, rows);
}

// The derivatives by the units of layer L - 1, from those by layer L + 1's margins.
template <int L> __device__ inline void lower(Space s, int rows) {
    constexpr int in = UNITS<L>, out = UNITS<L + 1>, EACH = at_once(ROWS * in);
    const float *delta = s.delta<L + 1>(), *w = s.weights + BEFORE<L>;
    for (int item = threadIdx.x; item < ROWS / EACH * in; item += THREADS) {
        const int i = item % in, row = item / in * EACH;
        if (row >= rows)
            break;
        float sum[EACH] = {};
        for (int j = 0; j < out; j++) {
            const float weight = w[i * STRIDE<L + 1> + j];
#pragma unroll
            for (int r = 0; r < EACH; r++)
                sum[r] += delta[(row + r) * ROW<L + 1> + j] * weight;
        }
#pragma unroll
        for (int r = 0; r < EACH; r++)
            s.delta<L>()[(row + r) * ROW<L> + i] *= sum[r];
    }
}

// Adds the gradients of layers L to 0; first: overwrites instead.
template <int L> __device__ inline void backward(Space s, int rows, bool first) {
    constexpr int in = UNITS<L>, out = UNITS<L + 1>, EACH = at_once((in + 1) * out);
    if constexpr (L > 0)
        lower<L>(s, rows);
    const float *delta = s.delta<L + 1>(), *x = s.value<L>();
    float *to = s.gradient + BEFORE<L>;
    for (int item = threadIdx.x; item < (in + EACH) / EACH * out; item += THREADS) {
        const int j = item % out, i = item / out * EACH;
        float sum[EACH] = {};
        for (int row = 0; row < rows; row++) {
            const float d = delta[row * ROW<L + 1> + j];
#pragma unroll
            for (int r = 0; r < EACH; r++) // those behind the ones are not kept
                sum[r] += x[row * ROW<L> + (i + r <= in ? i + r : in)] * d;
        }
#pragma unroll
        for (int r = 0; r < EACH; r++)
            if (i + r <= in) {
                float *sums = to + (i + r) * STRIDE<L + 1> + j;
                *sums = first ? sum[r] : *sums + sum[r];
            }
    }
    __syncthreads();
    if constexpr (L > 0)
        backward<L - 1>(s, rows, first);
}

// By squaring: a call of pow would spill registers.
__device__ inline double power(double base, int64 n) {
    double found = 1.0;
    for (; n > 0; n /= 2) {
        found *= n % 2 ? base : 1.0;
        base *= base;
    }
    return found;
}

// The factors of a step: the rate, what weights keep, 1 / (1 - beta^t), and the momentum.
struct Step {
    float rate, kept, share1, share2, momentum;
};

__device__ inline float moved(float w, float g, bool bias, Step step, float *m1, float *m2) {
    const float keep = bias ? 1.0f : step.kept;
#if ADAM
    *m1 = 0.9f * *m1 + 0.1f * g;
    *m2 = 0.999f * *m2 + 0.001f * g * g;
    const float length = sqrtf(*m2 * step.share2) + 1e-8f;
    return keep * w - step.rate * step.share1 * *m1 / length;
#else
    *m1 = step.momentum * *m1 + g;
    return keep * w - step.rate * *m1;
#endif
}

// Moves the weights of layer L and later ones.
template <int L> __device__ inline void move(Space s, Step step, float *m1, float *m2) {
    constexpr int biases = UNITS<L> * STRIDE<L + 1>, n = biases + STRIDE<L + 1>;
    for (int k = threadIdx.x; k < n; k += THREADS) {
        const int at = BEFORE<L> + k;
        s.weights[at] = moved(s.weights[at], s.gradient[at], k >= biases, step, m1 + at, m2 + at);
    }
    if constexpr (L + 1 < LAYERS)
        move<L + 1>(s, step, m1, m2);
}

template <int L> __device__ inline void ones(Space s) {
    for (int row = threadIdx.x; row < ROWS; row += THREADS)
        s.value<L>()[row * ROW<L> + UNITS<L>] = 1.0f;
    if constexpr (L + 1 < LAYERS)
        ones<L + 1>(s);
}

// Gathers rows of an order into shared memory.
__device__ inline void gather(Space s, const float *x, const float *y, const float *share,
                              const int *order, int rows) {
    for (int k = threadIdx.x; k < rows * UNITS<0>; k += THREADS) {
        const int row = k / UNITS<0>, unit = k % UNITS<0>;
        s.values[row * ROW<0> + unit] = x[order[row] * (int64)UNITS<0> + unit];
    }
    for (int row = threadIdx.x; row < rows; row += THREADS) {
        s.labels[row] = y[order[row]];
        s.shares[row] = share[order[row]];
    }
}

// The sum of this thread's losses; the margins become the derivatives of the batch's mean.
__device__ inline double losses(Space s, int rows, float inverse) {
    double total = 0.0;
    for (int row = threadIdx.x; row < rows; row += THREADS) {
        float *m = s.delta<LAYERS>() + row * ROW<LAYERS>;
        const float each = loss_of(m, s.labels[row]), part = s.shares[row];
        total += part > 0.0f ? (double)(each * part) : 0.0;
        for (int k = 0; k < UNITS<LAYERS>; k++)
            m[k] *= part * inverse;
    }
    return total;
}

// The sum over all threads, on thread 0.
__device__ inline double sum_block(double v, double *room) {
    v = sum_lanes(v, 1, 32);
    if (threadIdx.x % 32 == 0)
        room[threadIdx.x / 32] = v;
    __syncthreads();
    double total = 0.0;
    for (int i = 0; i < THREADS / 32; i++)
        total += room[i];
    __syncthreads();
    return total;
}

// Makes the steps of an epoch whose batches begin at places `from` to `until` - 1 of the order.
//
// x (G, longest, UNITS<0>), y and share (G, longest), count and alive (G,). orders
// (orders, longest), and which of them is each group's (G,). nets and state (G, WEIGHTS) and
// (G, 2, WEIGHTS). sums (G, 2): the losses before each step are added to the first; the second
// becomes NaN if a weight is not a number.
extern "C" __global__ void __launch_bounds__(THREADS)
    train_nets(const float *x, const float *y, const float *share, const int64 *count,
               const int *alive, const int *orders, const int *which, int64 longest, int epoch,
               int64 from, int64 until, float rate, float kept, float momentum, float *nets,
               float *state, double *sums) {
    DYNAMIC_SHARED
    __shared__ double room[THREADS / 32];
    const int thread = threadIdx.x;
    const int64 g = blockIdx.x, n = count[g], end = until < n ? until : n;
    if (!alive[g] || from >= end)
        return;
    Space s(shared);
    float *net = nets + g * WEIGHTS, *outside = state + g * 2 * WEIGHTS;
    float *m1 = KEEPS_STATE ? s.state() : outside, *m2 = m1 + WEIGHTS;
    for (int k = thread; k < WEIGHTS; k += THREADS) {
        s.weights[k] = net[k];
        s.gradient[k] = 0.0f;
        if (KEEPS_STATE) {
            m1[k] = outside[k];
            m2[k] = outside[WEIGHTS + k];
        }
    }
    ones<0>(s);
    x += g * longest * UNITS<0>;
    y += g * longest;
    share += g * longest;
    const int *order = orders + which[g] * longest;
    const int64 steps = epoch * ((n + BATCH - 1) / BATCH) + from / BATCH;
    double left1 = power(0.9, steps), left2 = power(0.999, steps), total = 0.0;
    for (int64 at = from; at < end; at += BATCH) {
        const int size = (int)(n - at < BATCH ? n - at : BATCH);
        for (int low = 0; low < size; low += ROWS) {
            const int rows = size - low < ROWS ? size - low : ROWS;
            gather(s, x, y, share, order + at + low, rows);
            __syncthreads();
            forward<0>(s, rows);
            total += losses(s, rows, 1.0f / (float)size);
            __syncthreads();
            backward<LAYERS - 1>(s, rows, low == 0);
        }
        left1 *= 0.9;
        left2 *= 0.999;
        const Step step{rate, kept, (float)(1.0 / (1.0 - left1)), (float)(1.0 / (1.0 - left2)),
                        momentum};
        move<0>(s, step, m1, m2);
        __syncthreads();
    }
    float nothing = 0.0f;
    for (int k = thread; k < WEIGHTS; k += THREADS) {
        net[k] = s.weights[k];
        nothing += 0.0f * s.weights[k];
        if (KEEPS_STATE) {
            outside[k] = m1[k];
            outside[WEIGHTS + k] = m2[k];
        }
    }
    total = sum_block(total, room);
    const double unusable = sum_block((double)nothing, room);
    if (thread == 0) {
        sums[2 * g] += total;
        sums[2 * g + 1] += unusable;
    }
}
