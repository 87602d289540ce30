// Deals the rows of a part of a group as `tk_deal` deals those of the whole group. Each part knows
// the number of its rows that earlier parts also have, so that equal rows have the keys of a
// dealing in one place, and the keys between which each fold lies.
#include <algorithm>
#include <cstring>
#include <tuple>

#include "../shared/rows.hpp"
#include "shuffle.hpp"

namespace tusk {
namespace {

// The common content of interchangeable rows, in the order of rows of one hash.
struct Alike {
    uint64_t hash;
    double label = 0, weight = 0, offset = 0;

    auto all() const { return std::tie(hash, label, weight, offset); }
    bool operator==(const Alike &other) const { return all() == other.all(); }
    bool operator<(const Alike &other) const { return all() < other.all(); }
};

Alike alike_of(const tusk_group &group, const Key &key) {
    const double *weight = tusk_extra(key.segment, tusk_shape_of(&group), TUSK_WEIGHTS);
    const double *offset = tusk_extra(key.segment, tusk_shape_of(&group), TUSK_OFFSETS);
    return {key.hash, tusk_labels(key.segment)[key.row] + 0.0, weight ? weight[key.row] : 0,
            offset ? offset[key.row] : 0};
}

class Earlier {
public:
    explicit Earlier(const tk_parted *how) : how_(how) {}

    uint64_t rows(const Alike &wanted) const {
        int64_t low = 0, high = how_->n;
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            at(middle) < wanted ? low = middle + 1 : high = middle;
        }
        return low < how_->n && at(low) == wanted ? (uint64_t)how_->before[low] : 0;
    }

private:
    const tk_parted *how_;

    Alike at(int64_t i) const {
        const uint64_t *from = how_->alike + i * how_->columns;
        Alike out{*from};
        std::memcpy(&out.label, from + 1, sizeof out.label);
        if (how_->columns > 2) {
            std::memcpy(&out.weight, from + 2, sizeof out.weight);
            std::memcpy(&out.offset, from + 3, sizeof out.offset);
        }
        return out;
    }
};

std::vector<Key> keys_of(const tk_pass *pass, const tk_parted *how) {
    const tusk_group &group = *pass->groups;
    std::vector<Key> keys = hash_rows(group, how->seed, true, pass->threads);
    keys = sorted(group, std::move(keys), pass->threads);
    const Earlier earlier(how);
    Alike last{};
    bool changed = false;
    uint64_t k = 0;
    for (size_t i = 0; i < keys.size(); i++) {
        Alike own = alike_of(group, keys[i]);
        k = i && own == last ? k + 1 : earlier.rows(own);
        last = own;
        keys[i].hash = hash_of_equal(own.hash, k);
        changed = changed || k;
    }
    return changed ? sorted(group, std::move(keys), pass->threads) : keys;
}

double label_of(const Key &key) {
    return tusk_labels(key.segment)[key.row];
}

int32_t fold_of(const tk_parted *how, const Key &key) {
    const uint64_t *until = how->until;
    if (how->n_labels > 1) {
        const double *found =
            std::lower_bound(how->label, how->label + how->n_labels, label_of(key));
        until += (found - how->label) * (how->folds - 1);
    }
    return (int32_t)(std::lower_bound(until, until + how->folds - 1, key.hash) - until);
}

int deal(const tk_pass *pass, const tk_parted *how, tusk_memory *memory, tusk_group *out) {
    std::vector<std::vector<Key>> cells((size_t)how->folds);
    for (const Key &key : keys_of(pass, how))
        cells[(size_t)fold_of(how, key)].push_back(key);
    for (size_t c = 0; c < cells.size(); c++) {
        int code = copy_rows(*pass->groups, memory, pass->threads, cells[c].data(),
                             (int64_t)cells[c].size(), out + c);
        if (code)
            return code;
    }
    return TK_OK;
}

} // namespace
} // namespace tusk

int tk_row_hashes(const tk_pass *pass, uint64_t seed, int32_t columns, uint64_t *out) {
    using namespace tusk;
    return code_of([&] {
        for (const Key &key : hash_rows(*pass->groups, seed, true, pass->threads)) {
            Alike own = alike_of(*pass->groups, key);
            *out = own.hash;
            std::memcpy(out + 1, &own.label, sizeof *out);
            if (columns > 2) {
                std::memcpy(out + 2, &own.weight, sizeof *out);
                std::memcpy(out + 3, &own.offset, sizeof *out);
            }
            out += columns;
        }
        return (int)TK_OK;
    });
}

int tk_part_rows(const tk_pass *pass, const tk_parted *how, uint64_t *key, double *label) {
    using namespace tusk;
    return code_of([&] {
        for (const Key &one : keys_of(pass, how)) {
            *key++ = one.hash;
            *label++ = label_of(one);
        }
        return (int)TK_OK;
    });
}

int tk_deal_part(const tk_pass *pass, const tk_parted *how, tusk_memory *memory,
                 tusk_group *cells) {
    using namespace tusk;
    std::memset(cells, 0, (size_t)how->folds * sizeof *cells);
    int code = code_of([&] { return deal(pass, how, memory, cells); });
    if (code)
        tk_free_groups(cells, how->folds);
    return code;
}
