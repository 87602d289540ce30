// Rows of a group, as samples: all of them, or those in a fold or outside it.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "../shared/pool.hpp"
#include "rows.hpp"

namespace tusk {

// Dense rows, read from the packer's memory.

constexpr int64_t TILE = 1024; // features that a thread sums at a time: their sums stay in L1

template <class T> class DenseFeatures : public Features {
public:
    DenseFeatures(std::vector<const T *> rows, int64_t width, int threads)
        : row_(std::move(rows)), threads_(threads) {
        n = (int64_t)row_.size();
        d = width;
    }

    double origin(int64_t j) const override { return n ? (double)row_[0][j] : 0; }

    void correlate(const double *t, double *out) const override {
        double total = 0;
        for (int64_t i = 0; i < n; i++)
            total += t[i];
        tiles([&](int64_t from, int64_t to) {
            std::fill(out + from, out + to, 0.0);
            int64_t i = 0;
            for (; i + 4 <= n; i += 4) {
                const T *x0 = row_[i], *x1 = row_[i + 1], *x2 = row_[i + 2], *x3 = row_[i + 3];
                double t0 = t[i], t1 = t[i + 1], t2 = t[i + 2], t3 = t[i + 3];
                for (int64_t j = from; j < to; j++)
                    out[j] += (t0 * x0[j] + t1 * x1[j]) + (t2 * x2[j] + t3 * x3[j]);
            }
            for (; i < n; i++)
                for (int64_t j = from; j < to; j++)
                    out[j] += t[i] * row_[i][j];
            for (int64_t j = from; j < to; j++)
                out[j] -= total * row_[0][j];
        });
    }

    void correlate(const double *t, const std::vector<int32_t> &which,
                   double *out) const override {
        constexpr int64_t SHARE = 256;
        int64_t k = (int64_t)which.size();
        parallel_for((k + SHARE - 1) / SHARE, threads_, [&](int64_t task) {
            int64_t from = task * SHARE, to = std::min(from + SHARE, k);
            std::fill(out + from, out + to, 0.0);
            for (int64_t i = 0; i < n; i++)
                for (int64_t c = from; c < to; c++)
                    out[c] += t[i] * ((double)row_[i][which[c]] - (double)row_[0][which[c]]);
        });
    }

    void moments(const double *a, double *mean, double *squares) const override {
        tiles([&](int64_t from, int64_t to) {
            std::fill(mean + from, mean + to, 0.0);
            std::fill(squares + from, squares + to, 0.0);
            for (int64_t i = 0; i < n; i++) {
                const T *x = row_[i], *x0 = row_[0];
                for (int64_t j = from; j < to; j++) {
                    double v = (double)x[j] - (double)x0[j];
                    mean[j] += a[i] * v;
                    squares[j] += a[i] * v * v;
                }
            }
        });
    }

    void copy(const std::vector<int32_t> &which, double *const *to) const override {
        constexpr int64_t SHARE = 64; // rows
        parallel_for((n + SHARE - 1) / SHARE, threads_, [&](int64_t task) {
            int64_t last = std::min(n, (task + 1) * SHARE);
            for (int64_t i = task * SHARE; i < last; i++)
                for (size_t c = 0; c < which.size(); c++)
                    to[c][i] = (double)row_[i][which[c]] - (double)row_[0][which[c]];
        });
    }

    void copy_rows(int64_t from, int64_t rows, double *to) const override {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < d; j++)
                to[j * rows + i] = (double)row_[from + i][j] - (double)row_[0][j];
    }

    void margins(const std::vector<int32_t> &which, const std::vector<double> &w,
                 double *out) const override {
        for (int64_t i = 0; i < n; i++) {
            double m = 0;
            for (size_t c = 0; c < which.size(); c++)
                m += w[c] * row_[i][which[c]];
            out[i] = m;
        }
    }

private:
    std::vector<const T *> row_;
    int threads_;

    template <class Body> void tiles(Body body) const {
        parallel_for((d + TILE - 1) / TILE, threads_,
                     [&](int64_t task) { body(task * TILE, std::min(d, (task + 1) * TILE)); });
    }
};

// Sparse rows, copied by column.

// One row's entries in the packer's memory.
template <class T> struct SparseRow {
    const int32_t *index;
    const T *value;
    uint32_t n;
};

class SparseFeatures : public Features {
public:
    SparseFeatures(int64_t rows, int64_t width, int threads) : threads_(threads) {
        n = rows;
        d = width;
    }

    // Returns a tk_code. Entries of a row with the same id are added. centred: whether an
    // intercept absorbs the origins of the features that all rows have, like those of dense rows.
    template <class T>
    int fill(const std::vector<SparseRow<T>> &rows, bool centred, tusk_memory *memory) {
        std::vector<int64_t> at(d + 1, 0);
        for (const SparseRow<T> &r : rows)
            for (uint32_t e = 0; e < r.n; e++)
                at[r.index[e] + 1]++;
        for (int64_t j = 0; j < d; j++)
            at[j + 1] += at[j];
        int code = row_.take(memory, at[d]);
        if (code == TK_OK)
            code = value_.take(memory, at[d]);
        if (code != TK_OK)
            return code;
        start_.assign(at.begin(), at.end() - 1);
        end_ = start_;
        for (size_t i = 0; i < rows.size(); i++)
            for (uint32_t e = 0; e < rows[i].n; e++)
                put(rows[i].index[e], (int32_t)i, (double)rows[i].value[e]);
        for (int64_t j = 0; centred && n && j < d; j++)
            if (end_[j] - start_[j] == n)
                move(j);
        return TK_OK;
    }

    bool sparse() const override { return true; }
    Entries entries(int32_t j) const override {
        return {row_.data() + start_[j], value_.data() + start_[j], end_[j] - start_[j]};
    }

    void correlate(const double *t, double *out) const override {
        columns([&](int64_t j) { out[j] = product(j, t); });
    }
    void correlate(const double *t, const std::vector<int32_t> &which,
                   double *out) const override {
        for (size_t c = 0; c < which.size(); c++)
            out[c] = product(which[c], t);
    }
    void moments(const double *a, double *mean, double *squares) const override {
        columns([&](int64_t j) {
            mean[j] = squares[j] = 0;
            for (int64_t e = start_[j]; e < end_[j]; e++) {
                double v = value_.data()[e], by = a[row_.data()[e]] * v;
                mean[j] += by;
                squares[j] += by * v;
            }
        });
    }
    void copy(const std::vector<int32_t> &which, double *const *to) const override {
        for (size_t c = 0; c < which.size(); c++) {
            std::fill_n(to[c], n, 0.0);
            for (int64_t e = start_[which[c]]; e < end_[which[c]]; e++)
                to[c][row_.data()[e]] = value_.data()[e];
        }
    }
    void margins(const std::vector<int32_t> &which, const std::vector<double> &w,
                 double *out) const override {
        std::fill_n(out, n, 0.0);
        for (size_t c = 0; c < which.size(); c++) {
            const double from = origin(which[c]);
            for (int64_t e = start_[which[c]]; e < end_[which[c]]; e++)
                out[row_.data()[e]] += w[c] * (value_.data()[e] + from);
        }
    }
    double origin(int64_t j) const override {
        const std::pair<int64_t, double> first{j, -INFINITY};
        auto found = std::lower_bound(origins_.begin(), origins_.end(), first);
        return found != origins_.end() && found->first == j ? found->second : 0;
    }

private:
    Charged<int32_t> row_;
    Charged<double> value_;
    std::vector<int64_t> start_, end_;
    std::vector<std::pair<int64_t, double>> origins_; // of the features that all rows have
    int threads_;

    void move(int64_t j) {
        double *value = value_.data() + start_[j];
        origins_.emplace_back(j, value[0]);
        for (int64_t i = n; i-- > 0;)
            value[i] -= value[0];
    }

    void put(int32_t j, int32_t i, double value) {
        int64_t &end = end_[j];
        if (end > start_[j] && row_.data()[end - 1] == i) {
            value_.data()[end - 1] += value;
            return;
        }
        row_.data()[end] = i;
        value_.data()[end++] = value;
    }
    double product(int64_t j, const double *t) const {
        double s = 0;
        for (int64_t e = start_[j]; e < end_[j]; e++)
            s += value_.data()[e] * t[row_.data()[e]];
        return s;
    }
    template <class Body> void columns(Body body) const {
        constexpr int64_t SHARE = 4096;
        parallel_for((d + SHARE - 1) / SHARE, threads_, [&](int64_t task) {
            for (int64_t j = task * SHARE; j < std::min(d, (task + 1) * SHARE); j++)
                body(j);
        });
    }
};

namespace {

// Calls body(segment, row in it, row) for each of a group's rows.
template <class Body> void each_row(const tusk_group &group, Body body) {
    int64_t row = 0;
    for (const tusk_segment *s : SegmentsOf(group))
        for (uint32_t i = 0; i < s->n_rows && row < group.n_rows; i++)
            body(s, i, row++);
}

template <class T> SparseRow<T> sparse_row(const tusk_segment *s, uint32_t i) {
    uint32_t from = tusk_row_starts(s)[i];
    return {tusk_indices(s) + from, (const T *)tusk_sparse_values(s) + from,
            tusk_row_starts(s)[i + 1] - from};
}

template <class T>
std::vector<T> ordered(const std::vector<T> &items, const std::vector<int64_t> &order) {
    std::vector<T> out;
    out.reserve(items.size());
    for (int64_t at : order)
        out.push_back(items[at]);
    return out;
}

template <class T>
void collect(const tusk_group &g, const std::vector<uint8_t> &taken, const Taken &which,
             bool centred, int threads, tusk_memory *memory, Sample &out, int *code) {
    std::vector<const T *> dense;
    std::vector<SparseRow<T>> sparse;
    bool is_sparse = tusk_is_sparse(g.kind);
    each_row(g, [&](const tusk_segment *s, uint32_t i, int64_t row) {
        if (!taken.empty() && !taken[row])
            return;
        if (is_sparse)
            sparse.push_back(sparse_row<T>(s, i));
        else
            dense.push_back((const T *)tusk_dense_values(s) + (int64_t)i * g.dim);
    });
    if (!is_sparse) {
        if (which.order)
            dense = ordered(dense, *which.order);
        out.features = std::make_unique<DenseFeatures<T>>(std::move(dense), g.dim, threads);
        return;
    }
    auto made = std::make_unique<SparseFeatures>((int64_t)sparse.size(), g.dim, threads);
    *code = made->fill(sparse, centred, memory);
    out.features = std::move(made);
}

} // namespace

Sample sample_of(const tk_pass *pass, int64_t group, const Taken &which, int threads,
                 tusk_memory *memory, int *code) {
    const tusk_group &g = pass->groups[group];
    tusk_shape shape = tusk_shape_of(&g);
    Sample out;
    std::vector<uint8_t> taken(which.stretch ? g.n_rows : 0);
    each_row(g, [&](const tusk_segment *s, uint32_t i, int64_t row) {
        if (which.stretch && !(taken[row] = which.has(row)))
            return;
        double y = tusk_labels(s)[i];
        const double *weight = tusk_extra(s, shape, TUSK_WEIGHTS);
        out.y.push_back(pass->positive ? y == pass->positive[group] : y);
        out.a.push_back(weight ? weight[i] : 1.0);
    });
    if (which.order) {
        out.y = ordered(out.y, *which.order);
        out.a = ordered(out.a, *which.order);
    }
    out.weight = std::accumulate(out.a.begin(), out.a.end(), 0.0);
    *code = TK_OK;
    if (g.kind & 1)
        collect<double>(g, taken, which, !!pass->fit_intercept, threads, memory, out, code);
    else
        collect<float>(g, taken, which, !!pass->fit_intercept, threads, memory, out, code);
    return out;
}

} // namespace tusk
