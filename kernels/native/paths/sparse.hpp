// Sparse rows, copied by column.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "rows.hpp"

namespace tusk {

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

} // namespace tusk
