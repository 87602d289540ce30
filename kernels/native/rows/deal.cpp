// Deals the rows of groups to cells: folds of cross-validation, cut into slices that double in
// size. A set of rows to train on is a set of cells whose segments are linked, so no row is copied
// for it. With strata each class is dealt evenly (R. Kohavi, A study of cross-validation and
// bootstrap for accuracy estimation and model selection, IJCAI 1995). Rows of equal value stay
// together, the values with most rows being dealt first, each to the smallest fold (R. Graham,
// Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 1969); in the order of time
// folds are stretches of it (R. Hyndman, G. Athanasopoulos, Forecasting: principles and
// practice, 5.10).
#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <unordered_map>

#include "../shared/rows.hpp"
#include "shuffle.hpp"

namespace tusk {
namespace {

// The slice of the j-th row of a fold: of 2^(slices - 1) rows in turn the first one is in slice 0,
// the next one in slice 1, the next two in slice 2, the next four in slice 3.
int slice_of(int64_t j, int slices) {
    int64_t place = j % ((int64_t)1 << (slices - 1));
    int slice = 0;
    while (place >> slice)
        slice++;
    return slice;
}

std::vector<Key> dealing_order(const tk_pass *pass, const tk_dealing *how, int64_t g,
                               int threads) {
    std::vector<Key> keys = shuffled_keys(pass, g, how->seed, how->by == TK_BY_CHANCE, threads,
                                          {how->forms, how->n_forms});
    auto label = [](const Key &k) { return tusk_labels(k.segment)[k.row]; };
    if (how->by_label && !how->held)
        std::stable_sort(keys.begin(), keys.end(),
                         [&](const Key &a, const Key &b) { return label(a) < label(b); });
    return keys;
}

double mark_of(const Key &k, tusk_shape shape) {
    return tusk_extra(k.segment, shape, TUSK_FOLDS)[k.row];
}

// Hash of a mark and the seed, regardless of the rest of the row: 0 and -0 are one mark.
uint64_t hash_of_mark(double mark, uint64_t seed) {
    uint64_t h;
    mark += 0.0;
    std::memcpy(&h, &mark, sizeof h);
    h += seed * 0x9e3779b97f4a7c15u + 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    return h ^ h >> 31;
}

struct Mark {
    double value;
    int64_t rows;
    uint64_t hash;
};

// The fold of each mark. With equal sizes the most frequent mark goes first, to the smallest fold;
// ties are ordered by chance. Else marks go by chance to the second fold, while this brings it
// nearer to its wanted number of rows.
std::map<double, int32_t> folds_of_marks(std::vector<Mark> marks, int folds, const int64_t *held) {
    std::map<double, int32_t> fold;
    if (held) {
        std::sort(marks.begin(), marks.end(),
                  [](const Mark &a, const Mark &b) { return a.hash < b.hash; });
        int64_t left = *held;
        size_t kept = marks.size();
        for (const Mark &one : marks) {
            bool out = kept > 1 && std::abs(left - one.rows) < std::abs(left);
            fold[one.value] = out;
            left -= out ? one.rows : 0;
            kept -= out;
        }
        return fold;
    }
    std::sort(marks.begin(), marks.end(), [](const Mark &a, const Mark &b) {
        return a.rows != b.rows ? a.rows > b.rows : a.hash < b.hash;
    });
    std::vector<int64_t> size(folds, 0);
    for (const Mark &one : marks) {
        auto least = std::min_element(size.begin(), size.end());
        fold[one.value] = (int32_t)(least - size.begin());
        *least += one.rows;
    }
    return fold;
}

// The fold of each row, rows of equal marks in one.
std::vector<int32_t> folds_by_value(const std::vector<Key> &keys, tusk_shape shape,
                                    const tk_dealing *how, const int64_t *held) {
    std::map<double, int64_t> seen;
    for (const Key &k : keys)
        seen[mark_of(k, shape)]++;
    std::vector<Mark> marks;
    for (const auto &[mark, rows] : seen)
        marks.push_back({mark, rows, hash_of_mark(mark, how->seed)});
    // The second fold has a row if there are two marks: the rarest one, if all are too large.
    std::map<double, int32_t> fold = folds_of_marks(marks, how->folds, held);
    bool none = held && *held && marks.size() > 1 &&
                std::none_of(fold.begin(), fold.end(), [](const auto &f) { return f.second; });
    if (none)
        fold[std::min_element(marks.begin(), marks.end(), [](const Mark &a, const Mark &b) {
                 return a.rows != b.rows ? a.rows < b.rows : a.hash < b.hash;
             })->value] = 1;
    std::vector<int32_t> out;
    for (const Key &k : keys)
        out.push_back(fold[mark_of(k, shape)]);
    return out;
}

// Rows in the order of their marks.
struct InTime {
    const std::vector<Key> &keys;
    tusk_shape shape;
    std::vector<size_t> order;

    InTime(const std::vector<Key> &rows, tusk_shape of) : keys(rows), shape(of) {
        order.resize(keys.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
            return mark_of(keys[a], shape) < mark_of(keys[b], shape);
        });
    }

    double mark(size_t i) const { return mark_of(keys[order[i]], shape); }

    // The index of the first held-out row, for about n of them: all rows of its moment are held
    // out, unless these are all rows.
    size_t first_held(int64_t n) const {
        size_t all = order.size(), first = all - (size_t)n;
        while (n && first > 0 && mark(first - 1) == mark(first))
            first--;
        if (n && !first)
            while (first < all && mark(first) == mark(0))
                first++;
        return first;
    }

    // The fold of each row: stretches of time, of equal size except for the first one, which has
    // the rest. Rows of one moment are in one fold: the later one if a border falls between them.
    std::vector<int32_t> folds(int n_folds, const int64_t *held) const {
        size_t n = order.size(), size = n / n_folds, first = n - size * (n_folds - 1);
        if (held) {
            first = first_held(*held);
            size = n - first;
        }
        std::vector<int32_t> out(n);
        for (size_t i = n; i-- > 0;) {
            bool with_next = i + 1 < n && mark(i) == mark(i + 1);
            size_t own = i < first || !size ? 0 : 1 + (i - first) / size;
            out[order[i]] = with_next ? out[order[i + 1]] : (int32_t)own;
        }
        return out;
    }

    // Number of later folds to which each row is near.
    std::vector<int32_t> near(const std::vector<int32_t> &fold, int n_folds, double gap) const {
        std::vector<double> begin(n_folds + 1, std::numeric_limits<double>::infinity());
        for (size_t i = order.size(); i-- > 0;)
            begin[fold[order[i]]] = mark(i);
        for (int k = n_folds; k-- > 0;)
            begin[k] = std::min(begin[k], begin[k + 1]); // for a fold without rows
        std::vector<int32_t> out(order.size(), 0);
        for (size_t i = 0; i < order.size(); i++) {
            int32_t own = fold[order[i]], &e = out[order[i]];
            while (own + e + 1 < n_folds && begin[own + e + 1] - mark(i) <= gap)
                e++;
        }
        return out;
    }
};

std::vector<int32_t> first_held(size_t n, int64_t held) {
    std::vector<int32_t> out(n, 0);
    std::fill_n(out.begin(), held, 1);
    return out;
}

// For rows in the order of dealing, sorted by label if they are dealt by it: in each label's rows
// a fold has those between two keys, as many as dealing all rows in turn would give it, so that
// parts of a group can deal their rows by these keys alone.
std::vector<int32_t> stretches_by_label(const std::vector<Key> &keys, const tk_dealing *how) {
    size_t folds = (size_t)how->folds;
    std::vector<int32_t> out;
    out.reserve(keys.size());
    auto label = [&](size_t i) { return tusk_labels(keys[i].segment)[keys[i].row]; };
    for (size_t begin = 0, end; begin < keys.size(); begin = end) {
        end = how->by_label ? begin + 1 : keys.size();
        while (end < keys.size() && label(end) == label(begin))
            end++;
        for (size_t fold = 0; fold < folds; fold++)
            out.insert(out.end(),
                       (end + folds - 1 - fold) / folds - (begin + folds - 1 - fold) / folds,
                       (int32_t)fold);
    }
    return out;
}

int width_of(const tk_dealing *how) {
    return how->has_gap ? how->folds : 1;
}

// The stretch of each row in the order of dealing.
std::vector<int32_t> stretches_of(const std::vector<Key> &keys, const tk_dealing *how,
                                  tusk_shape shape, const int64_t *held) {
    if (how->by == TK_BY_VALUE)
        return folds_by_value(keys, shape, how, held);
    if (how->by == TK_BY_ORDER) {
        InTime rows(keys, shape);
        std::vector<int32_t> out = rows.folds(how->folds, held);
        if (!how->has_gap)
            return out;
        std::vector<int32_t> near = rows.near(out, how->folds, how->gap);
        for (size_t i = 0; i < out.size(); i++)
            out[i] = out[i] * how->folds + near[i];
        return out;
    }
    return held ? first_held(keys.size(), *held) : stretches_by_label(keys, how);
}

int deal_group(const tk_pass *pass, const tk_dealing *how, int64_t g, int threads,
               tusk_memory *memory, tusk_group *out) {
    tusk_group group = pass->groups[g];
    int64_t stretches = (int64_t)how->folds * width_of(how);
    std::vector<std::vector<Key>> cells(stretches * how->slices);
    std::vector<Key> keys = dealing_order(pass, how, g, threads);
    std::vector<int32_t> stretch =
        stretches_of(keys, how, tusk_shape_of(&group), how->held ? how->held + g : nullptr);
    std::vector<int64_t> turn(stretches, 0);
    for (size_t i = 0; i < keys.size(); i++) {
        int slice = slice_of(turn[stretch[i]]++, how->slices);
        cells[stretch[i] * how->slices + slice].push_back(keys[i]);
    }
    keys = {};
    if (!how->keeps_marks)
        group.extras &= ~TUSK_FOLDS;
    for (size_t c = 0; c < cells.size(); c++) {
        // Sorted by hash again: neighbours in a cell would be of one class.
        std::sort(cells[c].begin(), cells[c].end(),
                  [](const Key &a, const Key &b) { return a.hash < b.hash; });
        int code =
            copy_rows(group, memory, threads, cells[c].data(), (int64_t)cells[c].size(), out + c);
        if (code)
            return code;
    }
    return TK_OK;
}

int deal(const tk_pass *pass, const tk_dealing *how, tusk_memory *memory, tusk_group *out) {
    return for_each_group(pass, [&](int64_t g, int threads) {
        return deal_group(pass, how, g, threads, memory,
                          out + g * how->folds * width_of(how) * how->slices);
    });
}

// Rows in their order, which is irrelevant if a column deals them.
std::vector<Key> as_they_lie(const tusk_group &group) {
    std::vector<Key> keys;
    keys.reserve((size_t)group.n_rows);
    for (const tusk_segment *s : SegmentsOf(group))
        for (uint32_t row = 0; row < s->n_rows; row++)
            keys.push_back({0, s, row});
    return keys;
}

// Writes stretches in the order of the rows.
int stretches(const tk_pass *pass, const tk_dealing *how, int32_t *out) {
    std::vector<int64_t> first(pass->n_groups + 1, 0);
    for (int64_t g = 0; g < pass->n_groups; g++)
        first[g + 1] = first[g] + pass->groups[g].n_rows;
    return for_each_group(pass, [&](int64_t g, int threads) {
        const tusk_group &group = pass->groups[g];
        std::vector<Key> keys =
            how->by == TK_BY_CHANCE ? dealing_order(pass, how, g, threads) : as_they_lie(group);
        std::vector<int32_t> found =
            stretches_of(keys, how, tusk_shape_of(&group), how->held ? how->held + g : nullptr);
        std::unordered_map<const tusk_segment *, int64_t> at;
        int64_t rows = first[g];
        for (const tusk_segment *s : SegmentsOf(group)) {
            at[s] = rows;
            rows += s->n_rows;
        }
        for (size_t i = 0; i < keys.size(); i++)
            out[at[keys[i].segment] + keys[i].row] = found[i];
        return (int)TK_OK;
    });
}

tusk_segment *last_of(const tusk_group &group) {
    auto *s = const_cast<tusk_segment *>(group.head);
    int64_t rows = s->n_rows; // the link of the last one may lead on, from an earlier set
    while (rows < group.n_rows) {
        s = s->next;
        rows += s->n_rows;
    }
    return s;
}

} // namespace
} // namespace tusk

int tk_deal(const tk_pass *pass, const tk_dealing *how, tusk_memory *memory, tusk_group *cells) {
    using namespace tusk;
    int64_t n = pass->n_groups * how->folds * width_of(how) * how->slices;
    std::memset(cells, 0, n * sizeof *cells);
    int code = code_of([&] { return deal(pass, how, memory, cells); });
    if (code)
        tk_free_groups(cells, n);
    return code;
}

int tk_stretches(const tk_pass *pass, const tk_dealing *how, int32_t *out) {
    using namespace tusk;
    return code_of([&] { return stretches(pass, how, out); });
}

void tk_link(const tusk_group *cells, int64_t n_groups, int64_t n_cells, const uint8_t *chosen,
             tusk_group *out) {
    for (int64_t g = 0; g < n_groups; g++) {
        const tusk_group *own = cells + g * n_cells;
        out[g] = own[0];
        out[g].head = nullptr;
        out[g].n_rows = 0;
        tusk_segment **link = const_cast<tusk_segment **>(&out[g].head);
        for (int64_t c = 0; c < n_cells; c++) {
            if (!own[c].head)
                continue;
            tusk_segment *last = tusk::last_of(own[c]);
            last->next = nullptr;
            if (!chosen[c])
                continue;
            *link = const_cast<tusk_segment *>(own[c].head);
            link = &last->next;
            out[g].n_rows += own[c].n_rows;
        }
    }
}

void tk_ring(const tusk_group *cells, int64_t n_groups, int64_t n_cells, const uint8_t *chosen) {
    for (int64_t g = 0; g < n_groups; g++) {
        const tusk_group *own = cells + g * n_cells;
        const tusk_segment *first = nullptr;
        tusk_segment *last = nullptr;
        for (int64_t c = 0; c < n_cells; c++) {
            if (!own[c].head)
                continue;
            tusk_segment *end = tusk::last_of(own[c]);
            end->next = nullptr;
            if (!chosen[c])
                continue;
            if (last)
                last->next = const_cast<tusk_segment *>(own[c].head);
            else
                first = own[c].head;
            last = end;
        }
        if (last)
            last->next = const_cast<tusk_segment *>(first);
    }
}

void tk_unlink(tusk_group *cells, int64_t n) {
    for (int64_t c = 0; c < n; c++)
        if (cells[c].head)
            tusk::last_of(cells[c])->next = nullptr;
    tk_free_groups(cells, n);
}

void tk_marks(const tusk_group *group, double *out) {
    tusk_shape shape = tusk_shape_of(group);
    for (const tusk_segment *s : tusk::SegmentsOf(*group)) {
        const double *marks = tusk_extra(s, shape, TUSK_FOLDS);
        out = std::copy(marks, marks + s->n_rows, out);
    }
}
