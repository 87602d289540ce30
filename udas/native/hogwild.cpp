// HOGWILD!: several threads update one shared model without locks. A thread reads the weights that it needs, computes the
// gradient of one row, and writes the changed weights back; an update that meets another's may be lost, which sparse
// problems hardly notice. Niu, Recht, Re and Wright, HOGWILD!: A lock-free approach to parallelizing stochastic gradient
// descent, NIPS 2011. HogBatch writes once a batch instead (Sallinen et al., High performance parallel stochastic
// gradient descent in shared memory, 2016), which dense models need: their threads would fight for every cache line.
//
// Shared weights are read and written by relaxed atomics: on the machines at hand plain moves, to the language no race.
#include <atomic>

#include "epoch.hpp"

namespace tusk {
namespace {

inline double read(double &x) { return std::atomic_ref<double>(x).load(std::memory_order_relaxed); }
inline void write(double &x, double v) { std::atomic_ref<double>(x).store(v, std::memory_order_relaxed); }

// Rows that a thread takes at a time.
int64_t share_rows(const tk_pass *pass, const tk_epoch *e, int64_t g) {
    int64_t each = pass->groups[g].n_rows / (8 * std::max(1, pass->threads)) + 1;
    return std::clamp<int64_t>(each, e->batch_size, 8192);
}

std::vector<Chunk> shares_of(const tk_pass *pass, const tk_epoch *e, int64_t g) {
    tk_pass one = *pass;
    one.groups += g;
    one.n_groups = 1;
    one.stride = 1;
    std::vector<Chunk> shares = make_chunks(&one, share_rows(pass, e, g));
    for (Chunk &c : shares) c.group = g;
    return shares;
}

// The shared dense model: w and, behind it, the intercept in coordinates of z.
template <class T, class Loss>
void dense_share(const tk_pass *pass, const tk_epoch *e, const Loss &loss, const Chunk &c, int64_t row, double *shared,
                 double *total) {
    int64_t d = pass->groups[0].dim;
    std::vector<double> start(d + 1, 0.0);
    DenseModel mine(e, c.group, d, pass->fit_intercept, start.data());
    std::vector<double> before(d);
    const double *shift = e->shift + c.group * d;
    Schedule schedule(e, c.group, pass->groups[c.group].n_rows);
    Labels labels(pass, c.group);
    alignas(64) double m[BLOCK_ROWS], r[BLOCK_ROWS];
    double sum_of_losses = 0;
    int most = std::min<int>(e->batch_size, block_rows<T>(d));
    for_dense_blocks<T>(c, d, most, [&](const DenseBlock<T> &rows) {
        if (cancelled(pass->cancel_mark)) return;
        double centre = 0;
        for (int64_t k = 0; k < d; k++) {
            before[k] = mine.w[k] = read(shared[k]);
            centre += before[k] * shift[k];
        }
        double v_d = mine.v_d = read(shared[d]);
        margins(rows, d, mine.w.data(), v_d - centre, m);
        sum_of_losses += evaluate(loss, labels, m, rows.y, rows.n, r, nullptr);
        add_gradient(rows, d, r, mine.gradient.data());
        mine.update(schedule.at(row), sum_block(r), rows.n, nullptr);
        for (int64_t k = 0; k < d; k++) write(shared[k], read(shared[k]) + (mine.w[k] - before[k]));
        write(shared[d], read(shared[d]) + (mine.v_d - v_d));
        row += rows.n;
    });
    std::atomic_ref<double>(*total).fetch_add(sum_of_losses, std::memory_order_relaxed);
}

template <class T>
double dot_shared(const int32_t *index, const T *value, uint32_t n, double *w) {
    double a = 0, b = 0;
    uint32_t k = 0;
    for (; k + 2 <= n; k += 2) {
        a += value[k] * read(w[index[k]]);
        b += value[k + 1] * read(w[index[k + 1]]);
    }
    if (k < n) a += value[k] * read(w[index[k]]);
    return a + b;
}

template <class T, class Loss>
void sparse_share(const tk_pass *pass, const tk_epoch *e, const Loss &loss, const Chunk &c, int64_t row, double *shared,
                  double *total) {
    int64_t d = pass->groups[0].dim;
    const double *scale = e->scale + c.group * d;
    SparsePenalty penalty(e, c.group, d);
    Schedule schedule(e, c.group, pass->groups[c.group].n_rows);
    Labels labels(pass, c.group);
    alignas(64) double m[BLOCK_ROWS], r[BLOCK_ROWS];
    double sum_of_losses = 0;
    for_sparse_blocks<T>(c, std::min<int>(e->batch_size, BLOCK_ROWS), [&](const SparseBlock<T> &rows) {
        if (cancelled(pass->cancel_mark)) return;
        double b = read(shared[d]);
        for (int i = 0; i < rows.n; i++) {
            uint32_t at = rows.start[i];
            m[i] = b + dot_shared(rows.index + at, rows.value + at, rows.start[i + 1] - at, shared);
        }
        sum_of_losses += evaluate(loss, labels, m, rows.y, rows.n, r, nullptr);
        double step = schedule.at(row) / rows.n, s = 0;
        for (int i = 0; i < rows.n; i++) {
            for (uint32_t k = rows.start[i]; k < rows.start[i + 1]; k++) {
                int32_t id = rows.index[k];
                double scale2 = scale[id] * scale[id];
                double next = read(shared[id]) - step * scale2 * r[i] * rows.value[k];
                write(shared[id], penalty.any ? penalty.apply(next, step, id, scale2) : next);
            }
            s += r[i];
        }
        if (pass->fit_intercept) write(shared[d], read(shared[d]) - step * s);
        row += rows.n;
    });
    std::atomic_ref<double>(*total).fetch_add(sum_of_losses, std::memory_order_relaxed);
}

template <class T, class Loss>
void group_epoch(const tk_pass *pass, const tk_epoch *e, const Loss &loss, int64_t g, int threads, double *v,
                 double *total) {
    int64_t d = pass->groups[0].dim;
    const double *scale = e->scale + g * d;
    std::vector<double> shared(d + 1);
    for (int64_t k = 0; k < d; k++) shared[k] = v[k] * scale[k];
    shared[d] = v[d];
    std::vector<Chunk> shares = shares_of(pass, e, g);
    bool sparse = tusk_is_sparse(pass->groups[0].kind);
    int64_t each = shares.empty() ? 0 : shares[0].rows;
    parallel_for((int64_t)shares.size(), threads, [&](int64_t i) {
        if (sparse)
            sparse_share<T>(pass, e, loss, shares[i], i * each, shared.data(), total);
        else
            dense_share<T>(pass, e, loss, shares[i], i * each, shared.data(), total);
    });
    for (int64_t k = 0; k < d; k++) v[k] = scale[k] > 0 ? shared[k] / scale[k] : 0;
    v[d] = shared[d];
}

} // namespace
} // namespace tusk

int tk_hogwild(const tk_pass *pass, const tk_epoch *epoch, double *weights, double *average, double *loss) {
    using namespace tusk;
    int64_t p = pass->groups[0].dim + 1;
    // Many groups: a thread each, without sharing. Few: all threads on one after the other.
    bool together = pass->n_groups < 2 * pass->threads;
    return with_loss(pass, [&](auto kind) {
        return with_storage(pass, [&]<class T>(const T *) {
            parallel_for(pass->n_groups, together ? 1 : pass->threads, [&](int64_t g) {
                loss[g] = 0;
                group_epoch<T>(pass, epoch, kind, g, together ? pass->threads : 1, weights + g * p, &loss[g]);
                if (average) std::copy_n(weights + g * p, p, average + g * p);
            });
            return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
        });
    });
}
