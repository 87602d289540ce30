#include "passes.hpp"

#include <atomic>
#include <cmath>
#include <cstring>

#include "../rows/shuffle.hpp"
#include "../shared/common/common_unit.hpp"
#include "../shared/working.hpp"

namespace tusk::clusters {
namespace {

constexpr int64_t TASK_ROWS = 1024; // rows that a thread copies at a time

// The nonzero numbers of a row, by rising feature; repeated ids add up.
template <class T>
void entries_of(const tusk_group &group, const Key &key, std::vector<Entry> &out) {
    out.clear();
    if (!tusk_is_sparse(group.kind)) {
        const T *x = (const T *)tusk_dense_values(key.segment) + key.row * (int64_t)group.dim;
        for (int32_t j = 0; j < group.dim; j++)
            if (x[j] != 0)
                out.push_back({j, (double)x[j]});
        return;
    }
    const uint32_t *start = tusk_row_starts(key.segment) + key.row;
    const int32_t *id = tusk_indices(key.segment);
    const T *x = (const T *)tusk_sparse_values(key.segment);
    for (uint32_t e = start[0]; e < start[1]; e++)
        out.push_back({id[e], (double)x[e]});
    std::sort(out.begin(), out.end());
    size_t kept = 0;
    for (size_t e = 0; e < out.size();) {
        Entry sum = out[e];
        for (e++; e < out.size() && out[e].first == sum.first; e++)
            sum.second += out[e].second;
        if (sum.second != 0)
            out[kept++] = sum;
    }
    out.resize(kept);
}

void entries_of(const tusk_group &group, const Key &key, std::vector<Entry> &out) {
    tusk_value_size(group.kind) == sizeof(double) ? entries_of<double>(group, key, out)
                                                  : entries_of<float>(group, key, out);
}

double weight_of(const tusk_group &group, const Key &key) {
    const double *weight = tusk_extra(key.segment, tusk_shape_of(&group), TUSK_WEIGHTS);
    return weight ? weight[key.row] : 1;
}

} // namespace

// One of equal rows, and the sum of their weights.
struct Points::Row {
    Key key;
    double weight;
};

int Points::read(const tk_pass &pass, const tusk_group &group, uint64_t seed, int threads,
                 tusk_memory *memory) {
    d = group.dim;
    Counted counted(group.n_rows * (int64_t)(2 * sizeof(Key) + sizeof(Row)));
    std::vector<Key> keys = sorted(group, hash_rows(group, seed, false, threads), threads);
    std::vector<Row> rows;
    std::vector<Entry> one, other;
    for (size_t at = 0, end; at < keys.size(); at = end) {
        if (at % TASK_ROWS == 0 && cancelled(pass.cancel_mark))
            return TK_CANCELLED;
        for (end = at + 1; end < keys.size() && keys[end].hash == keys[at].hash;)
            end++;
        const size_t first = rows.size();
        for (size_t k = at; k < end; k++) {
            bool known = false;
            if (end - at > 1) {
                entries_of(group, keys[k], one);
                for (size_t r = first; r < rows.size() && !known; r++) {
                    entries_of(group, rows[r].key, other);
                    known = one == other;
                    rows[r].weight += known ? weight_of(group, keys[k]) : 0;
                }
            }
            if (!known)
                rows.push_back({keys[k], weight_of(group, keys[k])});
        }
    }
    n = (int64_t)rows.size();
    to_common_unit(rows);
    return copy(group, rows, threads, pass.cancel_mark, memory);
}

// Divides the weights by their common unit, if they have one.
void Points::to_common_unit(std::vector<Row> &rows) {
    CommonUnit found;
    for (const Row &row : rows)
        found.add(row.weight);
    if (!(found.value() > 0))
        return;
    unit = found.value();
    for (Row &row : rows)
        row.weight = std::nearbyint(row.weight / unit);
}

// Allocates memory for the rows' values, and offsets of sparse rows.
int Points::take_room(const tusk_group &group, const std::vector<Row> &rows, tusk_memory *memory) {
    const bool given_sparse = tusk_is_sparse(group.kind);
    int code = weight_.take(memory, (size_t)n);
    code = code || !given_sparse ? code : start_.take(memory, (size_t)n + 1);
    if (code)
        return code;
    entries = n * d;
    if (given_sparse) {
        std::vector<Entry> row;
        entries = 0;
        for (int64_t i = 0; i < n; i++) {
            start_.data()[i] = entries;
            entries_of(group, rows[(size_t)i].key, row);
            entries += (int64_t)row.size();
        }
        start_.data()[n] = entries;
    }
    // Dense storage takes no more memory for short sparse rows.
    sparse = given_sparse && d > 2 * (entries / std::max<int64_t>(n, 1)) + 16;
    code = values_.take(memory, (size_t)(sparse ? entries : n * d) * (f64 ? 8 : 4));
    return code || !sparse ? code : id_.take(memory, (size_t)entries);
}

// Writes the values of row i; returns the largest absolute value.
double Points::put_row(int64_t i, const std::vector<Entry> &row) {
    const size_t size = f64 ? 8 : 4;
    double high = 0;
    int64_t at = sparse ? start_.data()[i] : i * d;
    if (!sparse)
        std::memset(values_.data() + (size_t)at * size, 0, (size_t)d * size);
    for (auto [feature, x] : row) {
        high = std::max(high, std::fabs(x));
        int64_t place = sparse ? at++ : at + feature;
        if (sparse)
            id_.data()[place] = feature;
        if (f64)
            ((double *)values_.data())[place] = x;
        else
            ((float *)values_.data())[place] = (float)x;
    }
    return high;
}

int Points::copy(const tusk_group &group, const std::vector<Row> &rows, int threads, int64_t mark,
                 tusk_memory *memory) {
    f64 = tusk_value_size(group.kind) == sizeof(double);
    if (int code = take_room(group, rows, memory))
        return code;
    std::vector<double> most((size_t)((n + TASK_ROWS - 1) / TASK_ROWS), 0.0);
    parallel_for((int64_t)most.size(), threads, [&](int64_t task) {
        std::vector<Entry> row;
        double high = 0;
        for (int64_t i = task * TASK_ROWS; i < std::min(n, (task + 1) * TASK_ROWS); i++) {
            if (i % 64 == 0 && cancelled(mark))
                return;
            weight_.data()[i] = rows[(size_t)i].weight;
            entries_of(group, rows[(size_t)i].key, row);
            high = std::max(high, put_row(i, row));
        }
        most[(size_t)task] = high;
    });
    if (cancelled(mark))
        return TK_CANCELLED;
    for (double one : most)
        largest = std::max(largest, one);
    return sparse ? mark_lacking(memory) : TK_OK;
}

int Points::mark_lacking(tusk_memory *memory) {
    Charged<int64_t> count;
    int code = lacking_.take(memory, (size_t)d);
    code = code ? code : count.take(memory, (size_t)d);
    if (code)
        return code;
    std::fill_n(count.data(), d, 0);
    for (int64_t e = 0; e < entries; e++)
        count.data()[id_.data()[e]]++;
    for (int64_t j = 0; j < d; j++)
        lacking_.data()[j] = count.data()[j] < n;
    return TK_OK;
}

namespace {

// Calls body(feature, value, row) for all numbers that are stored.
template <class T, class Body> void for_numbers(const Points &p, Body &&body) {
    const T *x = p.values<T>();
    for (int64_t i = 0; i < p.n; i++) {
        if (p.sparse)
            for (int64_t e = p.start()[i]; e < p.start()[i + 1]; e++)
                body(p.id()[e], (double)x[e], i);
        else
            for (int64_t j = 0; j < p.d; j++)
                body(j, (double)x[i * p.d + j], i);
    }
}

// The weighted means (d,) and the inverses of the deviations, 1 for a constant feature. Moments
// are of differences to the first row, so that features far from 0 keep their digits.
template <class T> void moments(const Points &p, double *mean, double *scale) {
    std::vector<double> origin((size_t)p.d, 0.0), seen((size_t)p.d, 0.0);
    double total = 0;
    for (int64_t i = 0; i < p.n; i++)
        total += p.weight()[i];
    for (int64_t e = 0; e < (p.sparse ? p.start()[1] : p.d); e++) {
        int64_t j = p.sparse ? p.id()[e] : e;
        origin[(size_t)j] = p.sparse && p.lacking()[j] != 0 ? 0.0 : (double)p.values<T>()[e];
    }
    std::fill_n(mean, p.d, 0.0);
    std::fill_n(scale, p.d, 0.0);
    for_numbers<T>(p, [&](int64_t j, double x, int64_t i) {
        mean[j] += p.weight()[i] / total * (x - origin[(size_t)j]);
        seen[(size_t)j] += p.weight()[i];
    });
    for_numbers<T>(p, [&](int64_t j, double x, int64_t i) {
        double z = x - origin[(size_t)j] - mean[j];
        scale[j] += p.weight()[i] / total * z * z;
    });
    for (int64_t j = 0; j < p.d; j++) {
        double zeros = p.sparse && p.lacking()[j] != 0 ? 1 - seen[(size_t)j] / total : 0;
        double deviation = std::sqrt(scale[j] + zeros * mean[j] * mean[j]);
        scale[j] = deviation > 0 ? 1 / deviation : 1;
        mean[j] += origin[(size_t)j];
    }
}

} // namespace

int Points::standardize(Units *units, tusk_memory *memory) {
    const size_t kept = (size_t)(sparse ? entries : n * d);
    Charged<double> doubles;
    int code = units->numbers.take(memory, 2 * (size_t)d);
    if (code)
        return code;
    units->shift = units->numbers.data();
    units->scale = units->shift + d;
    f64 ? moments<double>(*this, units->shift, units->scale)
        : moments<float>(*this, units->shift, units->scale);
    if (sparse)
        std::fill_n(units->shift, d, 0.0);
    if (!f64 && (code = doubles.take(memory, kept)))
        return code;
    double *out = f64 ? (double *)values_.data() : doubles.data();
    auto put = [&](int64_t j, double x, int64_t) {
        *out++ = (x - units->shift[j]) * units->scale[j];
    };
    f64 ? for_numbers<double>(*this, put) : for_numbers<float>(*this, put);
    if (f64)
        return TK_OK;
    code = values_.take(memory, kept * sizeof(double));
    if (!code)
        std::memcpy(values_.data(), doubles.data(), kept * sizeof(double));
    f64 = true;
    return code;
}

} // namespace tusk::clusters
