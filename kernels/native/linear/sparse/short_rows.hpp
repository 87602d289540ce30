// The curvature of short sparse rows: the products of their entries are added one by one. Rows of
// numbers and categories begin with the same ids. The products of these entries with each other
// are summed in registers, and those with each other entry are one vector.
#pragma once

#include <vector>

#include "../../shared/values.hpp"
#include "../sparse.hpp"

namespace tusk {

// Products of a panel's columns of type E that take the time of one product of two entries.
template <class E> constexpr int64_t ENTRY_PRODUCTS = 112 / sizeof(E);

// Whether the products of the entries of all rows cost less than those of p columns.
template <class E, class T> bool short_rows(const SparseBlock<T> &rows, int64_t p) {
    int64_t products = 0;
    for (int i = 0; i < rows.n; i++) {
        const int64_t entries = rows.start[i + 1] - rows.start[i] + 1;
        products += entries * (entries + 1) / 2;
    }
    return ENTRY_PRODUCTS<E> * products < rows.n * (p * (p + 1) / 2);
}

// Entries of z = (x * scale, 1) of one row in rising order of distinct ids. The 1 has the id d.
class ScaledRow {
public:
    template <class T> void read(const SparseRow<T> &row, const double *scale, int64_t d) {
        reserve(row.n + 1);
        bool rising = true;
        for (uint32_t k = 0; k < row.n; k++) {
            const int32_t id = row.index[k];
            rising &= k == 0 || row.index[k - 1] < id;
            ids[k] = id;
            values[k] = (double)row.value[k] * scale[id];
        }
        n = row.n;
        if (!rising)
            sort();
        ids[n] = (int32_t)d;
        values[n++] = 1;
    }
    void reserve(uint32_t entries) {
        if (ids.size() >= entries)
            return;
        ids.resize(2 * entries);
        values.resize(2 * entries);
    }

    uint32_t n = 0;
    std::vector<int32_t> ids;
    std::vector<double> values;

private:
    // Sorts by insertion, because rows are short here, and adds up the values of repeated ids.
    void sort() {
        uint32_t kept = 0;
        for (uint32_t k = 0; k < n; k++) {
            const int32_t id = ids[k];
            const double value = values[k];
            uint32_t at = kept;
            while (at > 0 && ids[at - 1] >= id)
                at--;
            if (at < kept && ids[at] == id) {
                values[at] += value;
                continue;
            }
            std::copy_backward(ids.begin() + at, ids.begin() + kept, ids.begin() + kept + 1);
            std::copy_backward(values.begin() + at, values.begin() + kept,
                               values.begin() + kept + 1);
            ids[at] = id;
            values[at] = value;
            kept++;
        }
        n = kept;
    }
};

// Common first ids of the rows of a block: first, first + 1, ..., such as those of numbers.
struct Leading {
    static constexpr uint32_t MOST = LANES - 1; // the last lane is the intercept's

    int32_t first = 0;
    uint32_t run = 0;                     // their number
    uint32_t longest = 0, shortest = ~0u; // entries of a row
    bool rising = true;                   // whether the ids of each row rise

    // Determines the common ids of the rows. columns: number of columns that are read in whole
    // vectors.
    template <class T> Leading(const SparseBlock<T> &rows, int64_t columns) {
        const SparseRow<T> top = sparse_row(rows, 0);
        run = std::min(top.n, MOST);
        first = top.n ? top.index[0] : 0;
        for (int i = 0; i < rows.n; i++) {
            const SparseRow<T> row = sparse_row(rows, i);
            longest = std::max(longest, row.n);
            shortest = std::min(shortest, row.n);
            uint32_t k = 0;
            while (k < std::min(run, row.n) && row.index[k] == first + (int32_t)k)
                k++;
            run = k; // the ids before it rise
            for (k = std::max(k, 1u); k < row.n; k++)
                rising &= row.index[k - 1] < row.index[k];
        }
        if (first + LANES > columns)
            run = 0;
    }
};

// Destination of the products of a block's rows.
struct Products {
    int64_t d, width;    // the intercept's id, and numbers in a row of the product
    const double *scale; // for padded(d + 1) features
    double *sums;        // only the lower triangle of its rows counts

    double *row(int64_t id) const { return sums + id * width; }
};

// The leading entries of the rows of a block, with the intercept in the last lane.
class LeadingPanel {
public:
    template <class T>
    LeadingPanel(const SparseBlock<T> &rows, const Leading &lead, const double *scale)
        : n_(rows.n) {
        const v8d constant = {0, 0, 0, 0, 0, 0, 0, 1};
        const v8d own = lead.run ? load_tail(scale + lead.first, (int)lead.run) : v8d{};
        for (int i = 0; i < n_; i++) {
            const SparseRow<T> row = sparse_row(rows, i);
            v8d z = constant;
            if (lead.run)
                z += load_tail(row.value, (int)lead.run) * own;
            store(z_[i], z);
        }
    }
    // The leading entries of row i without the intercept.
    v8d without_constant(int i) const {
        const v8d entries = {1, 1, 1, 1, 1, 1, 1, 0};
        return load(z_[i]) * entries;
    }
    // Adds their products with each other.
    void add(const Leading &lead, const double *h, const Products &to) const {
        v8d sums[LANES] = {};
        for (int i = 0; i < n_; i++) {
            const v8d scaled = h[i] * load(z_[i]);
            for (int t = 0; t < LANES; t++)
                sums[t] += z_[i][t] * scaled;
        }
        double *constant = to.row(to.d);
        for (uint32_t t = 0; t < lead.run; t++) {
            for (uint32_t k = 0; k <= t; k++)
                to.row(lead.first + t)[lead.first + k] += sums[t][k];
            constant[lead.first + t] += sums[LANES - 1][t];
        }
        constant[to.d] += sums[LANES - 1][LANES - 1];
    }

private:
    int n_;
    alignas(64) double z_[BLOCK_ROWS][LANES];
};

// Adds the products of the M other entries of each row with all entries. With M known, they stay
// in registers.
template <int M, class T>
void add_others(const SparseBlock<T> &rows, const Leading &lead, const LeadingPanel &panel,
                const double *h, const Products &to) {
    const Products into = to; // a copy, so that compilers know that stores do not change it
    const int64_t first = lead.first, run = lead.run;
    double *last = into.row(into.d);
    for (int i = 0; i < rows.n; i++) {
        if (h[i] == 0)
            continue;
        const SparseRow<T> row = sparse_row(rows, i);
        const v8d leading = panel.without_constant(i);
        int64_t id[M];
        double value[M];
#pragma GCC unroll 8
        for (int a = 0; a < M; a++) {
            id[a] = row.index[run + a];
            value[a] = (double)row.value[run + a] * into.scale[id[a]];
        }
#pragma GCC unroll 8
        for (int a = 0; a < M; a++) {
            const double by = h[i] * value[a];
            double *out = into.row(id[a]);
            if (run)
                store(out + first, load(out + first) + by * leading);
#pragma GCC unroll 8
            for (int b = 0; b <= a; b++)
                out[id[b]] += by * value[b];
            last[id[a]] += by;
        }
    }
}

// The same for rows of any numbers of entries. values: for those of a row.
template <class T>
void add_any_others(const SparseBlock<T> &rows, const Leading &lead, const LeadingPanel &panel,
                    const double *h, const Products &to, double *values) {
    double *last = to.row(to.d);
    for (int i = 0; i < rows.n; i++) {
        if (h[i] == 0)
            continue;
        const SparseRow<T> row = sparse_row(rows, i);
        const v8d leading = panel.without_constant(i);
        for (uint32_t a = lead.run; a < row.n; a++) {
            const int32_t id = row.index[a];
            values[a] = (double)row.value[a] * to.scale[id];
            const double by = h[i] * values[a];
            double *out = to.row(id);
            if (lead.run)
                store(out + lead.first, load(out + lead.first) + by * leading);
            for (uint32_t b = lead.run; b <= a; b++)
                out[row.index[b]] += by * values[b];
            last[id] += by;
        }
    }
}

// Adds sum_i h[i] z_i z_i' for rows whose ids rise. values: for those of a row.
template <class T>
void add_rising(const SparseBlock<T> &rows, const Leading &lead, const double *h,
                const Products &to, double *values) {
    const LeadingPanel panel(rows, lead, to.scale);
    panel.add(lead, h, to);
    switch (lead.longest == lead.shortest ? lead.longest - lead.run : 0) {
    case 1:
        return add_others<1>(rows, lead, panel, h, to);
    case 2:
        return add_others<2>(rows, lead, panel, h, to);
    case 3:
        return add_others<3>(rows, lead, panel, h, to);
    case 4:
        return add_others<4>(rows, lead, panel, h, to);
    case 5:
        return add_others<5>(rows, lead, panel, h, to);
    case 6:
        return add_others<6>(rows, lead, panel, h, to);
    default:
        return add_any_others(rows, lead, panel, h, to, values);
    }
}

// The same for rows in any order, with ids that may be repeated.
template <class T>
void add_unordered(const SparseBlock<T> &rows, const double *h, const Products &to, ScaledRow &z) {
    for (int i = 0; i < rows.n; i++) {
        if (h[i] == 0)
            continue;
        z.read(sparse_row(rows, i), to.scale, to.d);
        for (uint32_t a = 0; a < z.n; a++) {
            double *out = to.row(z.ids[a]);
            const double by = h[i] * z.values[a];
            for (uint32_t b = 0; b <= a; b++)
                out[z.ids[b]] += by * z.values[b];
        }
    }
}

// Adds sum_i h[i] z_i z_i'. z: buffer for a row of any length.
template <class T>
void add_products(const SparseBlock<T> &rows, const double *h, const Products &to, ScaledRow &z) {
    const Leading lead(rows, padded(to.d + 1));
    z.reserve(lead.longest + 1);
    if (lead.rising)
        add_rising(rows, lead, h, to, z.values.data());
    else
        add_unordered(rows, h, to, z);
}

} // namespace tusk
