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
#include <map>
#include <numeric>

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
    std::vector<Key> keys = shuffled_keys(pass, g, how->seed, threads, {how->forms, how->n_forms});
    auto label = [](const Key &k) { return tusk_labels(k.segment)[k.row]; };
    if (how->by_label)
        std::stable_sort(keys.begin(), keys.end(),
                         [&](const Key &a, const Key &b) { return label(a) < label(b); });
    return keys;
}

double mark_of(const Key &k, tusk_shape shape) {
    return tusk_extra(k.segment, shape, TUSK_FOLDS)[k.row];
}

// The fold of each row, rows of equal marks in one: the most frequent mark first, to the smallest
// fold. Of marks as frequent the one that is dealt first comes first.
std::vector<int32_t> folds_by_value(const std::vector<Key> &keys, tusk_shape shape, int folds) {
    std::map<double, std::pair<int64_t, size_t>> seen; // rows of a mark, and its first place
    for (size_t i = 0; i < keys.size(); i++)
        seen.try_emplace(mark_of(keys[i], shape), 0, i).first->second.first++;
    std::vector<std::pair<double, std::pair<int64_t, size_t>>> marks(seen.begin(), seen.end());
    std::sort(marks.begin(), marks.end(), [](const auto &a, const auto &b) {
        return a.second.first != b.second.first ? a.second.first > b.second.first
                                                : a.second.second < b.second.second;
    });
    std::vector<int64_t> size(folds, 0);
    std::map<double, int32_t> fold;
    for (const auto &[mark, of] : marks) {
        auto least = std::min_element(size.begin(), size.end());
        fold[mark] = (int32_t)(least - size.begin());
        *least += of.first;
    }
    std::vector<int32_t> out;
    for (const Key &k : keys)
        out.push_back(fold[mark_of(k, shape)]);
    return out;
}

// The fold of each row: stretches of time, of equal size but for the first one, which has the
// rest. Rows of one moment are in one fold: the later one where it would end between them.
std::vector<int32_t> folds_by_order(const std::vector<Key> &keys, tusk_shape shape, int folds) {
    size_t n = keys.size(), size = n / folds, first = n - size * (folds - 1);
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    auto mark = [&](size_t i) { return mark_of(keys[order[i]], shape); };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return mark_of(keys[a], shape) < mark_of(keys[b], shape);
    });
    std::vector<int32_t> out(n);
    for (size_t i = n; i-- > 0;) {
        bool with_next = i + 1 < n && mark(i) == mark(i + 1);
        size_t own = i < first || !size ? 0 : 1 + (i - first) / size;
        out[order[i]] = with_next ? out[order[i + 1]] : (int32_t)own;
    }
    return out;
}

// The fold of each row in the order of dealing.
std::vector<int32_t> folds_of(const std::vector<Key> &keys, const tk_dealing *how,
                              tusk_shape shape) {
    if (how->by == TK_BY_VALUE)
        return folds_by_value(keys, shape, how->folds);
    if (how->by == TK_BY_ORDER)
        return folds_by_order(keys, shape, how->folds);
    std::vector<int32_t> out(keys.size());
    for (size_t i = 0; i < keys.size(); i++)
        out[i] = (int32_t)(i % (size_t)how->folds);
    return out;
}

int deal_group(const tk_pass *pass, const tk_dealing *how, int64_t g, int threads,
               tusk_memory *memory, tusk_group *out) {
    tusk_group group = pass->groups[g];
    std::vector<std::vector<Key>> cells(how->folds * how->slices);
    std::vector<Key> keys = dealing_order(pass, how, g, threads);
    std::vector<int32_t> folds = folds_of(keys, how, tusk_shape_of(&group));
    std::vector<int64_t> turn(how->folds, 0);
    for (size_t i = 0; i < keys.size(); i++) {
        int slice = slice_of(turn[folds[i]]++, how->slices);
        cells[folds[i] * how->slices + slice].push_back(keys[i]);
    }
    keys = {};
    group.extras &= ~TUSK_FOLDS; // no kernel reads them from here on
    for (size_t c = 0; c < cells.size(); c++) {
        // By hash again: neighbours in a cell would be of one class.
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
        return deal_group(pass, how, g, threads, memory, out + g * how->folds * how->slices);
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
    int64_t n = pass->n_groups * how->folds * how->slices;
    std::memset(cells, 0, n * sizeof *cells);
    int code = code_of([&] { return deal(pass, how, memory, cells); });
    if (code)
        tk_free_groups(cells, n);
    return code;
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
