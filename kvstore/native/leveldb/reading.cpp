// Get: reads many partitions per call.
//
// Keys are read in ascending order, whatever order they are requested in, because neighbours lie
// in one block of a table. LevelDB maps tables, and finds, checks and decodes a block again for
// each get. Along a run of near keys, an iterator does so once per block. But an iterator cannot
// use the Bloom filters and looks into every level, so keys far apart are read one by one.
#include "reading.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "payload.hpp"

namespace db = tusk::leveldb;

namespace tusk {
namespace {

constexpr int64_t LONG_RUN = 8; // keys that justify an iterator's first seek

// Decodes the payload of a key into a partition of the given width.
template <class Weight>
int accept(std::uint64_t key, const char *value, std::size_t length, std::size_t width,
           Weight *out, Tally &tally, char *error) {
    tally.found++;
    tally.bytes_read += static_cast<int64_t>(length);
    auto *bytes = reinterpret_cast<const std::uint8_t *>(value);
    std::size_t stored = 0;
    if (const char *wrong = check(key, bytes, length, sizeof(Weight), &stored))
        return corrupt(key, wrong, error);
    if (stored != width)
        return corrupt(key, "holds another number of weights than the layout says", error);
    if (!decode(bytes, length, width, out))
        return corrupt(key, "has a slot outside", error);
    return KS_OK;
}

// Reads one partition of the given width; zeros if it does not exist.
template <class Weight>
int read(std::uint64_t key, std::size_t width, Weight *out, bool *there, Tally &tally,
         char *error) {
    std::size_t length = 0;
    char *message = nullptr;
    ks_store &store = tally.store;
    char *value =
        leveldb::get(store.db, store.reading, Key(key).data(), sizeof(Key), &length, &message);
    tally.requests++;
    if (message)
        return failed(message, error);
    *there = value != nullptr;
    if (!value) {
        std::fill_n(out, width, Weight(0));
        return KS_OK;
    }
    int code = accept(key, value, length, width, out, tally, error);
    leveldb::free(value);
    return code;
}

template <class Weight> struct Request {
    const std::uint64_t *keys;
    const Targets<Weight> &targets;
    std::uint8_t *found;
};

// The positions of the keys in ascending key order.
std::vector<int64_t> ascending(const std::uint64_t *keys, int64_t n) {
    std::vector<int64_t> places(static_cast<std::size_t>(n));
    std::iota(places.begin(), places.end(), 0);
    if (!std::is_sorted(keys, keys + n))
        std::sort(places.begin(), places.end(),
                  [keys](int64_t a, int64_t b) { return keys[a] < keys[b]; });
    return places;
}

class Cursor {
public:
    explicit Cursor(const ks_store &store) : store_(store) {}
    ~Cursor() {
        if (at_)
            db::iter_destroy(at_);
    }
    Cursor(const Cursor &) = delete;
    Cursor &operator=(const Cursor &) = delete;

    // Moves to the first key that is not below this one, step by step if it is near.
    void seek(std::uint64_t key, int steps) {
        if (!at_)
            at_ = db::create_iterator(store_.db, store_.reading);
        else
            for (; steps && db::iter_valid(at_) && here() < key; steps--)
                db::iter_next(at_);
        if (!steps || !db::iter_valid(at_) || here() < key || fresh_)
            db::iter_seek(at_, Key(key).data(), sizeof(Key));
        fresh_ = false;
    }

    bool on(std::uint64_t key) const { return db::iter_valid(at_) && here() == key; }

    const char *value(std::size_t *length) const { return db::iter_value(at_, length); }

    int status(char *error) const {
        char *message = nullptr;
        db::iter_get_error(at_, &message);
        return message ? failed(message, error) : KS_OK;
    }

private:
    std::uint64_t here() const {
        std::size_t length = 0;
        const char *bytes = db::iter_key(at_, &length);
        std::uint64_t key = 0;
        std::memcpy(&key, bytes, std::min(length, sizeof key));
        return __builtin_bswap64(key);
    }

    const ks_store &store_;
    db::Iterator *at_ = nullptr;
    bool fresh_ = true;
};

// Reads the keys of a run of near keys.
template <class Weight>
int read_run(const Request<Weight> &asked, const int64_t *place, const int64_t *end,
             Cursor &cursor, Tally &tally, char *error) {
    bool first = true;
    for (; place < end; place++, first = false) {
        int64_t i = *place;
        std::uint64_t key = asked.keys[i];
        Weight *weights = asked.targets.weights(i);
        std::size_t width = asked.targets.width(i);
        tally.requests++;
        cursor.seek(key, first ? 0 : 8);
        bool there = cursor.on(key);
        if (int code = there ? KS_OK : cursor.status(error))
            return code;
        if (asked.found)
            asked.found[i] = there;
        if (!there) {
            std::fill_n(weights, width, Weight(0));
            continue;
        }
        std::size_t length = 0;
        const char *value = cursor.value(&length);
        if (int code = accept(key, value, length, width, weights, tally, error))
            return code;
    }
    return KS_OK;
}

template <class Weight>
int read_each(const Request<Weight> &asked, const int64_t *place, const int64_t *end, Tally &tally,
              char *error) {
    for (; place < end; place++) {
        int64_t i = *place;
        bool there = false;
        Weight *weights = asked.targets.weights(i);
        if (int code = read(asked.keys[i], asked.targets.width(i), weights, &there, tally, error))
            return code;
        if (asked.found)
            asked.found[i] = there;
    }
    return KS_OK;
}

} // namespace

template <class Weight>
int read_many(const std::uint64_t *keys, int64_t n, const Targets<Weight> &targets,
              std::uint8_t *found, Tally &tally, char *error) {
    Request<Weight> asked{keys, targets, found};
    Cursor cursor(tally.store);
    auto places = ascending(keys, n);
    const int64_t *place = places.data(), *last = place + n;
    while (place < last) {
        // Keys are near if payloads of this size would share a block.
        std::size_t payload = targets.width(*place) * sizeof(Weight) + HEAD + sizeof(Key);
        std::uint64_t near = std::max<std::uint64_t>(tally.store.block_size / payload / 2, 1);
        const int64_t *end = place + 1;
        while (end < last && keys[*end] - keys[end[-1]] <= near)
            end++;
        bool run = end - place >= LONG_RUN;
        int code = run ? read_run(asked, place, end, cursor, tally, error)
                       : read_each(asked, place, end, tally, error);
        if (code)
            return code;
        place = end;
    }
    return KS_OK;
}

template int read_many(const std::uint64_t *, int64_t, const Targets<float> &, std::uint8_t *,
                       Tally &, char *);
template int read_many(const std::uint64_t *, int64_t, const Targets<double> &, std::uint8_t *,
                       Tally &, char *);

} // namespace tusk

int ks_get(ks_store *store, const uint64_t *keys, int64_t n, const int64_t *starts, void *out,
           uint8_t *found, char *error) {
    auto get = [&]<class Weight>(Weight *weights) {
        tusk::Tally tally(*store);
        tusk::Targets<Weight> targets{starts, weights};
        return tusk::read_many(keys, n, targets, found, tally, error);
    };
    return tusk::guarded(
        [&] {
            return store->weight_size == 4 ? get(static_cast<float *>(out))
                                           : get(static_cast<double *>(out));
        },
        error);
}
