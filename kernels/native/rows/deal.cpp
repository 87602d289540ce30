// Deals the rows of groups to cells: folds of cross-validation, cut into slices that double in
// size. A set of rows to train on is a set of cells whose segments are linked, so no row is copied
// for it. With strata each class is dealt evenly (R. Kohavi, A study of cross-validation and
// bootstrap for accuracy estimation and model selection, IJCAI 1995).
#include <algorithm>
#include <cstring>

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

int deal_group(const tk_pass *pass, const tk_dealing *how, int64_t g, int threads,
               tusk_memory *memory, tusk_group *out) {
    const tusk_group &group = pass->groups[g];
    std::vector<std::vector<Key>> cells(how->folds * how->slices);
    std::vector<Key> keys = dealing_order(pass, how, g, threads);
    for (size_t i = 0; i < keys.size(); i++) {
        int64_t fold = (int64_t)i % how->folds, turn = (int64_t)i / how->folds;
        cells[fold * how->slices + slice_of(turn, how->slices)].push_back(keys[i]);
    }
    keys = {};
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
