#include "machine.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>

namespace tusk::fm {
namespace {

constexpr uint32_t PIECE_ROWS = 256;
constexpr int64_t PIECE_ENTRIES = 1 << 16;

// Calls body(piece) for all pieces; TK_CANCELLED if the training was cancelled meanwhile.
int for_pieces(const Rows &rows, int threads, int64_t cancel_mark, Ref<void(const Piece &)> body) {
    parallel_for((int64_t)rows.pieces.size(), threads, [&](int64_t i) {
        if (!cancelled(cancel_mark))
            body(rows.pieces[i]);
    });
    return cancelled(cancel_mark) ? TK_CANCELLED : TK_OK;
}

// Joins the entries of one row; returns whether all values are 1.
template <class T>
bool join(int32_t *id, T *x, uint32_t n, std::vector<std::pair<int32_t, T>> &room) {
    bool rising = true, ones = true;
    for (uint32_t k = 0; k < n; k++) {
        rising = rising && (!k || id[k - 1] < id[k]);
        ones = ones && x[k] == 1;
    }
    if (rising)
        return ones;
    room.resize(n);
    for (uint32_t k = 0; k < n; k++)
        room[k] = {id[k], x[k]};
    std::stable_sort(room.begin(), room.end(),
                     [](const auto &a, const auto &b) { return a.first < b.first; });
    for (uint32_t k = 0; k < n;) {
        uint32_t first = k;
        double sum = 0;
        for (; k < n && room[k].first == room[first].first; k++) {
            sum += room[k].second;
            id[k] = room[k].first;
            x[k] = 0;
        }
        x[first] = (T)sum;
        ones = ones && k == first + 1;
    }
    return ones;
}

template <class T> bool join_piece(const Piece &p) {
    const uint32_t *start = tusk_row_starts(p.segment);
    std::vector<std::pair<int32_t, T>> room;
    bool ones = true;
    for (uint32_t row = p.first; row < p.first + p.n; row++)
        ones = join(tusk_indices(p.segment) + start[row],
                    (T *)tusk_sparse_values(p.segment) + start[row], start[row + 1] - start[row],
                    room) &&
               ones;
    return ones;
}

// Calls body(id, value) for the entries of a piece that are not 0.
template <class Body> void each_entry(const Rows &rows, const Piece &p, Body &&body) {
    auto walk = [&]<class T>(const T *x) {
        const uint32_t *start = tusk_row_starts(p.segment);
        const int32_t *id = tusk_indices(p.segment);
        for (uint32_t e = start[p.first]; e < start[p.first + p.n]; e++)
            if (x[e] != 0)
                body(id[e], (double)x[e]);
    };
    rows.group.kind == TUSK_SPARSE_F32 ? walk((const float *)tusk_sparse_values(p.segment))
                                       : walk((const double *)tusk_sparse_values(p.segment));
}

// Calls body(values of a row) for the dense rows of a piece.
template <class Body> void each_row(const Rows &rows, const Piece &p, Body &&body) {
    auto walk = [&]<class T>(const T *x) {
        for (uint32_t row = p.first; row < p.first + p.n; row++)
            body(x + (int64_t)row * rows.group.dim);
    };
    rows.group.kind == TUSK_DENSE_F32 ? walk((const float *)tusk_dense_values(p.segment))
                                      : walk((const double *)tusk_dense_values(p.segment));
}

// Marks features that occur: for features that are all 1, the scale is 1 if a row has the feature.
int mark_seen(const Rows &rows, int64_t cancel_mark, double *scale) {
    return for_pieces(rows, 1, cancel_mark, [&](const Piece &p) {
        each_entry(rows, p, [&](int32_t id, double) { scale[id] = 1; });
    });
}

// Counts the rows in which each feature is nonzero. count: (d,).
int count_rows(const Rows &rows, int64_t cancel_mark, double *count) {
    std::fill_n(count, rows.group.dim, 0.0);
    return for_pieces(rows, 1, cancel_mark, [&](const Piece &p) {
        each_entry(rows, p, [&](int32_t id, double) { count[id]++; });
    });
}

// Sets shift and scale of varying features that all rows have, also the held-out ones: they are
// centred like dense ones.
int centre(const Rows &rows, const Rows &held, const double *count, int64_t cancel_mark,
           Units *u) {
    const double n = (double)rows.group.n_rows;
    std::vector<int32_t> place(rows.group.dim, -1), ids;
    std::vector<double> in_held(held.group.n_rows ? rows.group.dim : 0);
    int code = in_held.empty() ? TK_OK : count_rows(held, cancel_mark, in_held.data());
    for (int32_t i = 0; i < rows.group.dim; i++)
        if (count[i] == n && (in_held.empty() || in_held[i] == (double)held.group.n_rows)) {
            place[i] = (int32_t)ids.size();
            ids.push_back(i);
        }
    if (code || ids.empty())
        return code;
    std::vector<double> first(ids.size(), NAN), mean(ids.size()), square(ids.size());
    auto each = [&](auto body) {
        return for_pieces(rows, 1, cancel_mark, [&](const Piece &p) {
            each_entry(rows, p, [&](int32_t id, double x) {
                if (place[id] >= 0)
                    body(place[id], x);
            });
        });
    };
    code = each([&](int32_t k, double x) {
        first[k] = std::isnan(first[k]) ? x : first[k];
        mean[k] += (x - first[k]) / n;
    });
    code = code ? code : each([&](int32_t k, double x) {
        double far = x - first[k] - mean[k];
        square[k] += far * far / n;
    });
    for (size_t k = 0; k < ids.size(); k++) {
        double middle = first[k] + mean[k], deviation = std::sqrt(square[k]);
        if (!std::isfinite(deviation) || deviation <= 1e-12 * std::fabs(middle))
            continue;
        u->shift.resize(rows.group.dim);
        u->shift[ids[k]] = middle;
        u->scale.data()[ids[k]] = 1 / deviation;
    }
    return code;
}

int sparse_scales(const Rows &rows, const Rows &held, tusk_memory *memory, int64_t cancel_mark,
                  Units *u) {
    const int64_t d = rows.group.dim;
    double *scale = u->scale.data();
    Charged<double> counts;
    int code = counts.take(memory, d);
    if (code)
        return code;
    double *count = counts.data();
    code = count_rows(rows, cancel_mark, count);
    code = code ? code : for_pieces(rows, 1, cancel_mark, [&](const Piece &p) {
        each_entry(rows, p, [&](int32_t id, double x) { scale[id] += x * x; });
    });
    for (int64_t i = 0; i < d; i++)
        scale[i] = !count[i] ? 0 : std::isfinite(scale[i]) ? std::sqrt(count[i] / scale[i]) : NAN;
    return code ? code : centre(rows, held, count, cancel_mark, u);
}

// Means of the differences from the first row, so that a constant feature has its value as the
// mean, without rounding.
int dense_means(const Rows &rows, int64_t cancel_mark, std::vector<double> &mean) {
    const int64_t d = rows.group.dim;
    const double n = (double)rows.group.n_rows;
    std::vector<double> first;
    mean.assign(d, 0);
    int code = for_pieces(rows, 1, cancel_mark, [&](const Piece &p) {
        each_row(rows, p, [&](const auto *x) {
            if (first.empty())
                first.assign(x, x + d);
            for (int64_t k = 0; k < d; k++)
                mean[k] += (x[k] - first[k]) / n;
        });
    });
    for (size_t k = 0; k < first.size(); k++)
        mean[k] += first[k];
    return code;
}

int dense_scales(const Rows &rows, int64_t cancel_mark, double *scale, std::vector<double> &mean) {
    const int64_t d = rows.group.dim;
    const double n = (double)rows.group.n_rows;
    int code = dense_means(rows, cancel_mark, mean);
    code = code ? code : for_pieces(rows, 1, cancel_mark, [&](const Piece &p) {
        each_row(rows, p, [&](const auto *x) {
            for (int64_t k = 0; k < d; k++)
                scale[k] += (x[k] - mean[k]) * (x[k] - mean[k]);
        });
    });
    for (int64_t k = 0; k < d; k++) {
        double deviation = std::sqrt(scale[k] / n);
        bool varies = deviation > 1e-12 * std::fabs(mean[k]);
        scale[k] = !std::isfinite(deviation) ? NAN : varies ? 1 / deviation : 0;
    }
    return code;
}

// The labels' mean and deviation, and the sum of the weights.
void label_units(const Rows &rows, const tk_fm &fm, Units *u) {
    double total = 0, mean = 0, square = 0;
    auto each = [&](auto body) {
        for (const Piece &p : rows.pieces) {
            Targets t = targets_of(p.segment, rows.shape()).from(p.first);
            for (uint32_t i = 0; i < p.n; i++)
                body(t.y[i], t.weight ? t.weight[i] : 1.0);
        }
    };
    each([&](double, double weight) { total += weight; });
    u->weight = (double)rows.group.n_rows / total;
    u->finite = u->finite && std::isfinite(total) && std::isfinite(u->weight);
    if (fm.loss != TK_FM_SQUARED)
        return;
    each([&](double y, double weight) { mean += y * (weight / total); });
    each([&](double y, double weight) { square += (y - mean) * (y - mean) * (weight / total); });
    u->label_shift = mean;
    u->label_scale = std::sqrt(square);
    u->finite = u->finite && std::isfinite(mean) && std::isfinite(square);
}

// Writes values as floats over the original values. A value is read before any is written over it,
// since a float is not longer than the original; memcpy, because the two types share memory.
template <class T> void scale_sparse(const Units &u, const tusk_segment *s) {
    const T *x = (const T *)tusk_sparse_values(s);
    char *to = (char *)tusk_sparse_values(s);
    const int32_t *id = tusk_indices(s);
    const double *scale = u.scale.data(), *shift = u.shift.empty() ? nullptr : u.shift.data();
    for (uint32_t e = 0; e < s->nnz; e++) {
        double near = (double)x[e] - (shift && x[e] != 0 ? shift[id[e]] : 0);
        auto z = (float)(near * scale[id[e]]);
        std::memcpy(to + e * sizeof z, &z, sizeof z);
    }
}

template <class T> void scale_dense(const Units &u, int64_t d, const tusk_segment *s) {
    const T *x = (const T *)tusk_dense_values(s);
    char *to = (char *)tusk_dense_values(s);
    const double *scale = u.scale.data(), *shift = u.shift.data();
    for (int64_t row = 0; row < s->n_rows; row++)
        for (int64_t k = 0; k < d; k++, x++, to += sizeof(float)) {
            auto z = (float)(((double)*x - shift[k]) * scale[k]);
            std::memcpy(to, &z, sizeof z);
        }
}

template <class T> void scale_segment(const Rows &rows, const Units &u, const tusk_segment *s) {
    rows.sparse() ? scale_sparse<T>(u, s) : scale_dense<T>(u, rows.group.dim, s);
}

} // namespace

int64_t Rows::entries() const {
    return sparse() ? tk_nonzeros(&group) : group.n_rows * (int64_t)group.dim;
}

Rows rows_of(const tusk_group &group, double positive) {
    Rows rows{group, {}, positive};
    int64_t d = std::max(group.dim, 1);
    auto dense = (uint32_t)std::clamp<int64_t>(PIECE_ENTRIES / d, 1, PIECE_ROWS);
    for (const tusk_segment *s : SegmentsOf(group))
        for (uint32_t at = 0, n; at < s->n_rows; at += n) {
            n = std::min(s->n_rows - at, rows.sparse() ? PIECE_ROWS : dense);
            const uint32_t *start = rows.sparse() ? tusk_row_starts(s) + at : nullptr;
            while (start && n > 1 && start[n] - start[0] > PIECE_ENTRIES)
                n /= 2;
            rows.pieces.push_back({s, at, n});
        }
    return rows;
}

int join_repeated(const Rows &rows, int threads, int64_t cancel_mark, bool *ones) {
    std::atomic<bool> all{rows.sparse()};
    int code = TK_OK;
    if (rows.sparse())
        code = for_pieces(rows, threads, cancel_mark, [&](const Piece &p) {
            bool narrow = rows.group.kind == TUSK_SPARSE_F32;
            if (!(narrow ? join_piece<float>(p) : join_piece<double>(p)))
                all.store(false, std::memory_order_relaxed);
        });
    *ones = all;
    return code;
}

int find_units(const Rows &rows, const Rows &held, const tk_fm &fm, tusk_memory *memory,
               int64_t cancel_mark, Units *u) {
    const int64_t d = rows.group.dim;
    int code = u->scale.take(memory, d);
    if (code)
        return code;
    double *scale = u->scale.data();
    std::fill_n(scale, d, 0.0);
    if (!rows.sparse())
        code = dense_scales(rows, cancel_mark, scale, u->shift);
    else if (u->ones)
        code = mark_seen(rows, cancel_mark, scale);
    else
        code = sparse_scales(rows, held, memory, cancel_mark, u);
    for (int64_t k = 0; k < d; k++)
        u->finite = u->finite && std::isfinite(scale[k]);
    label_units(rows, fm, u);
    return code;
}

int put_into_units(const Rows &rows, const Units &u, int threads, int64_t cancel_mark) {
    if (u.ones)
        return TK_OK; // values are not read
    std::vector<const tusk_segment *> segments;
    for (const tusk_segment *s : SegmentsOf(rows.group))
        segments.push_back(s);
    bool narrow = tusk_value_size(rows.group.kind) == sizeof(float);
    parallel_for((int64_t)segments.size(), threads, [&](int64_t i) {
        if (!cancelled(cancel_mark))
            narrow ? scale_segment<float>(rows, u, segments[i])
                   : scale_segment<double>(rows, u, segments[i]);
    });
    return cancelled(cancel_mark) ? TK_CANCELLED : TK_OK;
}

} // namespace tusk::fm
