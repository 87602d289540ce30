// Parts shared by all kernels here: the layout of their work, copies into shared memory, losses.
//
// NVRTC compiles this code for a GPU, specialised by macros (see `source.py`). For tests a C++
// compiler compiles it too, with a header that runs a block's threads one after another.

#ifndef TUSK_ON_CPU
#define ASYNC_COPIES
#define DYNAMIC_SHARED extern __shared__ __align__(128) double shared[];
#else
#define DYNAMIC_SHARED
#endif

typedef long long int64;
typedef unsigned int uint32;

#define FULL 0xffffffffu

// `rows` neighbouring rows of one group, from row `first` on. Their sums go to row `place` of out.
struct Chunk {
    int64 first;
    int rows, group;
    int64 place;
};

// Rows first to last - 1 of the partial sums are added up for one group.
struct Span {
    int64 group, first, last;
};

// --- asynchronous copies into shared memory ---

template <int BYTES> __device__ inline void copy_async(void *to, const void *from) {
#ifdef ASYNC_COPIES
    uint32 place = (uint32)__cvta_generic_to_shared(to);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from),
                     "n"(BYTES)
                     : "memory");
#else
    tusk_queue_copy(to, from, BYTES);
#endif
}

__device__ inline void end_of_copies() {
#ifdef ASYNC_COPIES
    asm volatile("cp.async.commit_group;" ::: "memory");
#else
    tusk_end_of_copies();
#endif
}

// Waits until at most the last LEFT groups of this thread's copies are pending.
template <int LEFT> __device__ inline void await_copies() {
#ifdef ASYNC_COPIES
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#else
    tusk_await_copies(LEFT);
#endif
}

// --- losses of one row: kernels/native/linear/losses.hpp, in the same order of operations ---

struct LossValues {
    double loss, derivative, curvature;
};

enum { SQUARED = 0, LOGISTIC = 1, HINGE = 2 };

// The loss of a pass and its parameters.
struct Losses {
    int kind;
    double smoothing;
    const double *positive, *class_weight; // (G,), (G, 2) or NULL
};

// The same as parameters of a kernel. Kernels take only numbers and addresses.
#define LOSS_PARAMETERS                                                                           \
    int loss_kind, double smoothing, const double *positive, const double *class_weight
#define LOSSES                                                                                    \
    Losses { loss_kind, smoothing, positive, class_weight }

// The meaning of one group's labels.
struct Labels {
    int kind;
    double smoothing, positive, weight_negative, weight_positive;

    __device__ Labels(const Losses &l, int group) : kind(l.kind), smoothing(l.smoothing) {
        positive = l.positive ? l.positive[group] : 0.0;
        weight_negative = l.class_weight ? l.class_weight[2 * (int64)group] : 1.0;
        weight_positive = l.class_weight ? l.class_weight[2 * (int64)group + 1] : 1.0;
    }
};

__device__ inline LossValues logistic_loss(double m, double y) {
    double z = y * m, e = exp(-fabs(z)), inverse = 1.0 / (1.0 + e);
    double wrong = z >= 0.0 ? e * inverse : inverse; // 1 - P(y)
    return {fmax(-z, 0.0) + log1p(e), -y * wrong, e * inverse * inverse};
}

__device__ inline LossValues hinge_loss(double m, double y, double g) {
    double z = 1.0 - y * m, above = fmax(z, 0.0);
    if (g == 0.0)
        return {above, z > 0.0 ? -y : 0.0, 0.0};
    bool corner = above < g;
    double curved = above * (1.0 / g);
    return {corner ? 0.5 * above * curved : above - 0.5 * g, -y * (corner ? curved : 1.0),
            corner && z > 0.0 ? 1.0 / g : 0.0};
}

__device__ inline LossValues evaluate(const Labels &l, double m, double y) {
    if (l.kind == SQUARED) {
        double r = m - y;
        return {0.5 * r * r, r, 1.0};
    }
    bool high = y == l.positive;
    double sign = high ? 1.0 : -1.0, weight = high ? l.weight_positive : l.weight_negative;
    LossValues v = l.kind == LOGISTIC ? logistic_loss(m, sign) : hinge_loss(m, sign, l.smoothing);
    return {weight * v.loss, weight * v.derivative, weight * v.curvature};
}

// --- sums over lanes, always in the same order ---

__device__ inline double sum_lanes(double v, int from, int to) {
    for (int off = from; off < to; off *= 2)
        v += __shfl_xor_sync(FULL, v, off);
    return v;
}
