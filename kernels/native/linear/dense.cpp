// The functions of dense.hpp, for all types of rows and all losses.
#include "../shared/values.hpp"
#include "links.hpp"

namespace tusk {
namespace {

// The dot product of one row in NV vectors, the last of which holds `tail` values.
template <int NV, class T> inline v8d dot_row(const T *x, const v8d *w, int tail) {
    v8d sum = load_tail(x + (NV - 1) * LANES, tail) * w[NV - 1];
    for (int k = 0; k < NV - 1; k++)
        sum += load(x + k * LANES) * w[k];
    return sum;
}

// Prefetches the next block of rows while this one is used. The margins fetch its even rows, the
// gradient its odd rows, so that memory is busy during both.
template <int NV, class T>
inline void prefetch_next(const Contiguous<T> &x, int i, int n, int64_t at) {
    const char *p = (const char *)(x(i + n) + at);
    for (size_t k = 0; k < NV * LANES * sizeof(T); k += 64)
        __builtin_prefetch(p + k);
}
template <int NV, class T> inline void prefetch_next(const Gathered<T> &, int, int, int64_t) {}

// m[i] += x_i . w over the tile of features from `at` on, for n rows.
template <int NV, class Rows>
void add_margins_tile(const Rows &x, int64_t at, int n, const double *w, int tail, double *m) {
    v8d weights[NV];
    for (int k = 0; k < NV; k++)
        weights[k] = load(w + k * LANES);
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        v8d each[LANES];
        for (int r = 0; r < LANES; r++) {
            if (r % 2 == 0)
                prefetch_next<NV>(x, i + r, n, at);
            each[r] = dot_row<NV>(x(i + r) + at, weights, tail);
        }
        store(m + i, load(m + i) + sum_each(each));
    }
    for (; i < n; i++)
        m[i] += sum(dot_row<NV>(x(i) + at, weights, tail));
}

// Eight running sums, kept in registers.
struct Sums8 {
    vpart parts[PARTS];

    void add(double r, v8d x) {
        parts[0] += r * part<0>(x);
        if constexpr (PARTS > 1)
            parts[1] += r * part<1>(x);
    }
    void add(const Sums8 &other) {
        for (int p = 0; p < PARTS; p++)
            parts[p] += other.parts[p];
    }
    v8d value() const { return joined(parts); }
};

template <int NV, class T> inline void add_row(Sums8 *sums, const T *row, double r, int tail) {
    for (int k = 0; k < NV - 1; k++)
        sums[k].add(r, load(row + k * LANES));
    sums[NV - 1].add(r, load_tail(row + (NV - 1) * LANES, tail));
}

// g += sum_i r[i] x_i over one tile of features. Narrow tiles use several independent sums to hide
// the latency of addition.
template <int NV, class Rows>
void add_gradient_tile(const Rows &x, int64_t at, int n, const double *r, int tail, double *g) {
    constexpr int WAYS = NV > 4 ? 1 : NV > 2 ? 2 : 4;
    Sums8 sums[WAYS][NV] = {};
    int i = 0;
    for (; i + WAYS <= n; i += WAYS)
        for (int way = 0; way < WAYS; way++) {
            if ((i + way) % 2)
                prefetch_next<NV>(x, i + way, n, at);
            add_row<NV>(sums[way], x(i + way) + at, r[i + way], tail);
        }
    for (; i < n; i++)
        add_row<NV>(sums[0], x(i) + at, r[i], tail);
    for (int way = 1; way < WAYS; way++)
        for (int k = 0; k < NV; k++)
            sums[0][k].add(sums[way][k]);
    for (int k = 0; k < NV; k++)
        store(g + k * LANES, load(g + k * LANES) + sums[0][k].value());
}

// Margins, labels and weights of PART rows.
struct Part {
    vpart margin, label, weight;
};

// The losses of PART rows, of which the first `left` count, times their weights. d and h get the
// first and second derivatives.
template <bool curved, class Exact>
inline vpart evaluate_part(const Exact &loss, const Labels &labels, const Part &rows, int left,
                           double *d, double *h) {
    vpart weight = rows.weight, label = rows.label;
    if constexpr (Exact::classifies) {
        Mask<vpart> is_positive = label == labels.positive;
        label = select<vpart>(is_positive, vpart{} + 1.0, vpart{} - 1.0);
        if (labels.weighted)
            weight *= select<vpart>(is_positive, vpart{} + labels.weight_positive,
                                    vpart{} + labels.weight_negative);
    }
    LossValues<vpart> v = loss(rows.margin, label);
    if (left < PART) {
        static const v8i lane = {0, 1, 2, 3, 4, 5, 6, 7};
        Mask<vpart> lanes;
        std::memcpy(&lanes, &lane, sizeof lanes);
        weight = select<vpart>(lanes < (int64_t)left, weight, vpart{});
    }
    const vpart slope = weight * v.derivative;
    std::memcpy(d, &slope, sizeof slope);
    if constexpr (curved) {
        const vpart bend = weight * v.curvature;
        std::memcpy(h, &bend, sizeof bend);
    }
    return weight * v.loss;
}

// The loss and the curvature each cost about as much as the derivative, so they are computed only
// on request. noinline: in one function, the losses would be compiled to slower code.
template <bool valued, bool curved, class Exact>
[[gnu::noinline]] double evaluate_as(const Exact &loss, const Labels &labels, const double *m,
                                     const Targets &t, int n, double *d, double *h) {
    vpart totals[PARTS] = {};
    const double *y = t.y;
    for (int i = 0; i < n; i += LANES) {
        const int left = std::min(n - i, LANES);
        const v8d label = left == LANES ? load(y + i) : load_tail(y + i, left);
        const v8d margin = left == LANES ? load(m + i) : load_tail(m + i, left);
        v8d weight = splat(1);
        if (t.weight)
            weight = left == LANES ? load(t.weight + i) : load_tail(t.weight + i, left);
        const vpart first =
            evaluate_part<curved>(loss, labels, {part<0>(margin), part<0>(label), part<0>(weight)},
                                  left, d + i, curved ? h + i : nullptr);
        if constexpr (valued)
            totals[0] += first;
        if constexpr (PARTS > 1) {
            const vpart second = evaluate_part<curved>(
                loss, labels, {part<1>(margin), part<1>(label), part<1>(weight)}, left - PART,
                d + i + PART, curved ? h + i + PART : nullptr);
            if constexpr (valued)
                totals[1] += second;
        }
    }
    for (int i = padded(n); i < BLOCK_ROWS; i++) {
        d[i] = 0;
        if constexpr (curved)
            h[i] = 0;
    }
    return sum(joined(totals));
}

// Calls the kernel for a loss. At another link than the usual one it computes all three values,
// because the mean takes most of the time.
template <bool valued>
double evaluate_rows(const Loss &loss, const Labels &labels, const double *m, const Targets &t,
                     int n, double *d, double *h) {
    double total = 0;
    if (is_linked(loss.kind)) {
        alignas(64) double unread[BLOCK_ROWS];
        total = with_linked_loss(loss, [&](const auto &exact) {
            return evaluate_as<true, true>(exact, labels, m, t, n, d, h ? h : unread);
        });
    } else
        total = with_loss(loss, [&](const auto &exact) {
            return h ? evaluate_as<valued, true>(exact, labels, m, t, n, d, h)
                     : evaluate_as<valued, false>(exact, labels, m, t, n, d, h);
        });
    if (valued && h && loss.by_scores)
        for (int i = 0; i < BLOCK_ROWS; i++)
            h[i] = !t.weight ? d[i] * d[i] : i < n ? d[i] * d[i] / t.weight[i] : 0;
    return total;
}

} // namespace

template <class Rows>
void margins(const Rows &x, int n, int64_t d, const double *w, double b, double *m) {
    std::fill(m, m + n, b);
    for_tiles(
        d, [&]<int NV>(int64_t at, int tail) { add_margins_tile<NV>(x, at, n, w + at, tail, m); });
}

template <class Rows>
void add_gradient(const Rows &x, int n, int64_t d, const double *r, double *g) {
    for_tiles(d, [&]<int NV>(int64_t at, int tail) {
        add_gradient_tile<NV>(x, at, n, r, tail, g + at);
    });
}

double evaluate(const Loss &loss, const Labels &labels, const double *m, const double *y, int n,
                double *d, double *h) {
    return evaluate_rows<true>(loss, labels, m, {y}, n, d, h);
}

double evaluate(const Loss &loss, const Labels &labels, double *m, const Targets &t, int n,
                double *d, double *h) {
    add_offsets(t, n, m);
    return evaluate_rows<true>(loss, labels, m, t, n, d, h);
}

void derivatives(const Loss &loss, const Labels &labels, const double *m, const double *y, int n,
                 double *d, double *h) {
    evaluate_rows<false>(loss, labels, m, {y}, n, d, h);
}

void derivatives(const Loss &loss, const Labels &labels, double *m, const Targets &t, int n,
                 double *d, double *h) {
    add_offsets(t, n, m);
    evaluate_rows<false>(loss, labels, m, t, n, d, h);
}

#define TUSK_ROWS(Rows)                                                                  \
    template void margins(const Rows &, int, int64_t, const double *, double, double *); \
    template void add_gradient(const Rows &, int, int64_t, const double *, double *);
TUSK_ROWS(Contiguous<float>)
TUSK_ROWS(Contiguous<double>)
TUSK_ROWS(Gathered<float>)
TUSK_ROWS(Gathered<double>)

} // namespace tusk
