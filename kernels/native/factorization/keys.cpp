#include "keys.hpp"

#include <algorithm>
#include <atomic>

#include "../shared/pool.hpp"

namespace tusk {
namespace {

// The distinct numbers used so far by the ratings of a piece, on one side.
class Named {
public:
    // Starts a new set, of numbers first to first + n - 1.
    void enter(int32_t first, int32_t n) {
        first_ = first;
        seen_.assign((size_t)n, 0);
    }
    // Adds a number and returns whether it is new.
    bool name(int32_t number) {
        uint8_t &seen = seen_[number - first_];
        bool fresh = !seen;
        seen = 1;
        return fresh;
    }
    bool has(int32_t number) const { return seen_[number - first_]; }
    // Calls body for each number in the set, in ascending order.
    template <class Body> void each(Body &&body) const {
        for (size_t k = 0; k < seen_.size(); k++)
            if (seen_[k])
                body(first_ + (int32_t)k);
    }
    void forget() { std::fill(seen_.begin(), seen_.end(), 0); }

private:
    int32_t first_ = 0;
    std::vector<uint8_t> seen_;
};

template <class Body>
int for_blocks(const Factorization &f, int threads, int64_t cancel_mark, Body &&body) {
    parallel_for((int64_t)f.grid * f.grid, threads, [&](int64_t block) {
        if (!cancelled(cancel_mark))
            body((int32_t)(block / f.grid), (int32_t)(block % f.grid), block);
    });
    return cancelled(cancel_mark) ? TK_CANCELLED : TK_OK;
}

int64_t distinct(const Named &named, const Side &side, int32_t per_key) {
    int64_t n = 0, last = -1;
    named.each([&](int32_t place) {
        int64_t key = side.id[place] / per_key;
        n += key != last;
        last = key;
    });
    return n;
}

void bundle(const Factorization &f, const Side &side, const Keys &keys, KeySide &out,
            std::vector<int32_t> &of) {
    of.resize((size_t)side.seen());
    for (int32_t range = 0; range < f.grid; range++) {
        out.first.push_back((int32_t)out.bundles.size());
        for (int32_t place = side.first[range]; place < side.first[range + 1]; place++) {
            uint64_t row = out.first_row + (uint64_t)side.id[place];
            uint64_t key =
                keys.key_a_weight ? row * (uint64_t)f.stride : row / (uint64_t)keys.per_key;
            if (place == side.first[range] || out.bundles.back().key != key)
                out.bundles.push_back({key, place, place});
            out.bundles.back().end = place + 1;
            of[place] = (int32_t)out.bundles.size() - 1;
        }
    }
    out.first.push_back((int32_t)out.bundles.size());
    out.visits.assign(out.bundles.size(), 0);
    out.drawn.assign(out.bundles.size(), 0);
}

// Cuts one block into pieces. The result is the same in every call.
class Cutter {
public:
    Cutter(const Factorization &f, const Keys &keys, const std::vector<int32_t> &of_user,
           const std::vector<int32_t> &of_item, int64_t most)
        : f_(f), keys_(keys), of_user_(of_user), of_item_(of_item), most_(most) {}

    // Calls piece(first rating, users' bundles, items' bundles, vectors) for each piece. Returns
    // false if two keys do not fit into a piece.
    template <class Body> bool cut(int32_t a, int32_t b, int64_t block, Body &&piece) {
        enter(users_, keys_.users, a);
        enter(items_, keys_.items, b);
        people_.enter(f_.users.first[a], f_.users.first[a + 1] - f_.users.first[a]);
        things_.enter(f_.items.first[b], f_.items.first[b + 1] - f_.items.first[b]);
        int64_t begin = f_.start[block], held = 0, vectors = 0;
        auto close = [&] {
            some_users_.clear();
            some_items_.clear();
            users_.each([&](int32_t n) { some_users_.push_back(n); });
            items_.each([&](int32_t n) { some_items_.push_back(n); });
            piece(begin, some_users_, some_items_, vectors);
            for (Named *named : {&users_, &items_, &people_, &things_})
                named->forget();
            held = vectors = 0;
        };
        for (int64_t k = begin; k < f_.start[block + 1]; k++) {
            const Rating &r = f_.ratings.data()[k];
            int32_t user = of_user_[r.user], item = of_item_[r.item];
            int64_t more = !users_.has(user) + !items_.has(item);
            if (more && held + more > most_) {
                if (!held)
                    return false;
                close();
                begin = k;
                more = 2;
                if (more > most_)
                    return false;
            }
            held += more;
            users_.name(user);
            items_.name(item);
            vectors += people_.name(r.user) + things_.name(r.item);
        }
        if (held)
            close();
        return true;
    }

private:
    static void enter(Named &named, const KeySide &side, int32_t range) {
        named.enter(side.first[range], side.first[range + 1] - side.first[range]);
    }

    const Factorization &f_;
    const Keys &keys_;
    const std::vector<int32_t> &of_user_, &of_item_;
    int64_t most_; // limit of bundles per piece
    Named users_, items_, people_, things_;
    std::vector<int32_t> some_users_, some_items_;
};

} // namespace

int count_keys(const Factorization &f, const int32_t *per_key, int32_t n, int threads,
               int64_t cancel_mark, int64_t *keys) {
    std::vector<std::atomic<int64_t>> counts((size_t)n);
    int code = for_blocks(f, threads, cancel_mark, [&](int32_t a, int32_t b, int64_t block) {
        Named users, items;
        users.enter(f.users.first[a], f.users.first[a + 1] - f.users.first[a]);
        items.enter(f.items.first[b], f.items.first[b + 1] - f.items.first[b]);
        for (int64_t k = f.start[block]; k < f.start[block + 1]; k++) {
            users.name(f.ratings.data()[k].user);
            items.name(f.ratings.data()[k].item);
        }
        for (int32_t k = 0; k < n; k++)
            counts[k] +=
                distinct(users, f.users, per_key[k]) + distinct(items, f.items, per_key[k]);
    });
    std::copy(counts.begin(), counts.end(), keys);
    return code;
}

namespace {

void shape(const Factorization &f, int32_t per_key, Keys &keys) {
    keys.key_a_weight = per_key == 0;
    keys.per_key = std::max(per_key, 1);
    keys.per_vector = per_key ? 1 : f.width();
    keys.width = per_key ? per_key * f.stride : 1;
    keys.items.first_row =
        (uint64_t)((f.users.n_ids + keys.per_key - 1) / keys.per_key) * (uint64_t)keys.per_key;
}

// Concatenates `cut`, the pieces of all blocks. Returns the number of bundles that they need.
int64_t join(const Factorization &f, const std::vector<std::vector<Piece>> &cut, Keys &keys) {
    int64_t needs = 0;
    for (const auto &some : cut) {
        keys.start.push_back((int64_t)keys.pieces.size());
        for (Piece piece : some) {
            piece.needs = needs;
            needs += piece.users + piece.items;
            keys.pieces.push_back(piece);
        }
    }
    keys.start.push_back((int64_t)keys.pieces.size());
    keys.pieces.push_back({f.start[cut.size()], needs, 0, 0});
    return needs;
}

void count_visits(Keys &keys) {
    for (const Piece *p = keys.pieces.data(); p < &keys.pieces.back(); p++)
        for (int32_t k = 0; k < p->users + p->items; k++)
            (k < p->users ? keys.users : keys.items).visits[keys.needs.data()[p->needs + k]]++;
}

} // namespace

int find_keys(const Factorization &f, int32_t per_key, int64_t key_bytes, int64_t most_bytes,
              int threads, int64_t cancel_mark, Keys &keys) {
    shape(f, per_key, keys);
    std::vector<int32_t> of_user, of_item;
    bundle(f, f.users, keys, keys.users, of_user);
    bundle(f, f.items, keys, keys.items, of_item);
    const int64_t most = most_bytes / (key_bytes * keys.per_vector);
    std::vector<std::vector<Piece>> cut((size_t)f.grid * f.grid);
    std::atomic<bool> too_large = false;
    std::atomic<int64_t> vectors = 0;
    int code = for_blocks(f, threads, cancel_mark, [&](int32_t a, int32_t b, int64_t block) {
        Cutter cutter(f, keys, of_user, of_item, most);
        bool fits = cutter.cut(a, b, block, [&](int64_t first, auto &users, auto &items, auto n) {
            cut[block].push_back({first, 0, (int32_t)users.size(), (int32_t)items.size()});
            vectors += n;
        });
        if (!fits)
            too_large = true;
    });
    if (code || too_large)
        return code ? code : (int)TK_FACTORS_TOO_LARGE;
    keys.vectors = vectors;
    if ((code = keys.needs.take(f.memory, (size_t)join(f, cut, keys))))
        return code;
    code = for_blocks(f, threads, cancel_mark, [&](int32_t a, int32_t b, int64_t block) {
        Cutter cutter(f, keys, of_user, of_item, most);
        const Piece *next = &keys.pieces[keys.start[block]];
        cutter.cut(a, b, block, [&](int64_t, auto &users, auto &items, auto) {
            int32_t *out = keys.needs.data() + next++->needs;
            std::copy(items.begin(), items.end(), std::copy(users.begin(), users.end(), out));
        });
    });
    if (!code)
        count_visits(keys);
    return code;
}

} // namespace tusk

extern "C" {

int tk_factor_count(const tk_factorization *f, const int32_t *per_key, int32_t n, int threads,
                    int64_t cancel_mark, int64_t *keys) {
    return tusk::code_of(
        [&] { return tusk::count_keys(*f, per_key, n, threads, cancel_mark, keys); });
}

int tk_factor_keys_new(const tk_factorization *f, int32_t per_key, int64_t key_bytes,
                       int64_t most_bytes, int threads, int64_t cancel_mark,
                       tk_factor_keys **out) {
    *out = nullptr;
    return tusk::code_of([&]() -> int {
        auto keys = std::make_unique<tk_factor_keys>();
        int code =
            tusk::find_keys(*f, per_key, key_bytes, most_bytes, threads, cancel_mark, *keys);
        if (!code)
            *out = keys.release();
        return code;
    });
}

void tk_factor_keys_free(tk_factor_keys *keys) {
    delete keys;
}

void tk_factor_keys_start(tk_factor_keys *keys) {
    for (tusk::KeySide *side : {&keys->users, &keys->items})
        std::fill(side->drawn.begin(), side->drawn.end(), 0);
}

void tk_factor_keys_resume(tk_factor_keys *keys) {
    for (tusk::KeySide *side : {&keys->users, &keys->items})
        std::fill(side->drawn.begin(), side->drawn.end(), 1);
}

int64_t tk_factor_keys_first_item(const tk_factor_keys *keys) {
    return (int64_t)keys->items.first_row;
}
}
