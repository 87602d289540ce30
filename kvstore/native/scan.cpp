// Partitions in the order of their keys.
#include <cstring>

#include "payload.hpp"
#include "store.hpp"

namespace db = tusk::leveldb;

struct ks_scan {
    ks_store *store;
    db::Iterator *iterator;
};

namespace tusk {
namespace {

// The partition at the iterator; *full: it has no room.
template <class Weight>
int take(const ks_scan &scan, std::uint64_t *key, int64_t room, Weight *out, int64_t *width,
         bool *full, char *error) {
    std::size_t length = 0, stored = 0;
    const char *name = db::iter_key(scan.iterator, &length);
    if (length != sizeof *key) {
        std::snprintf(error, KS_ERROR, "a key has %zu bytes, not 8", length);
        return KS_CORRUPT;
    }
    std::memcpy(key, name, sizeof *key);
    *key = __builtin_bswap64(*key);
    auto *bytes = reinterpret_cast<const std::uint8_t *>(db::iter_value(scan.iterator, &length));
    if (const char *wrong = check(*key, bytes, length, sizeof(Weight), &stored))
        return corrupt(*key, wrong, error);
    *width = static_cast<int64_t>(stored);
    *full = *width > room;
    if (!*full && !decode(bytes, length, stored, out))
        return corrupt(*key, "has a slot outside", error);
    return KS_OK;
}

template <class Weight>
int take_many(ks_scan &scan, int64_t max_keys, int64_t max_values, std::uint64_t *keys,
              int64_t *starts, Weight *values, int64_t *n, char *error) {
    starts[0] = *n = 0;
    bool full = false;
    for (; *n < max_keys && db::iter_valid(scan.iterator); ++*n, db::iter_next(scan.iterator)) {
        int64_t width = 0, used = starts[*n];
        if (int code =
                take(scan, &keys[*n], max_values - used, values + used, &width, &full, error))
            return code;
        if (full)
            break;
        starts[*n + 1] = used + width;
    }
    if (full && !*n)
        return corrupt(keys[0], "is wider than any partition of the layout", error);
    char *message = nullptr;
    db::iter_get_error(scan.iterator, &message);
    return message ? failed(message, error) : KS_OK;
}

} // namespace
} // namespace tusk

ks_scan *ks_scan_open(ks_store *store, uint64_t first) {
    auto *scan =
        new (std::nothrow) ks_scan{store, db::create_iterator(store->db, store->scanning)};
    if (scan)
        db::iter_seek(scan->iterator, tusk::Key(first).data(), sizeof(tusk::Key));
    return scan;
}

int ks_scan_next(ks_scan *scan, int64_t max_keys, int64_t max_values, uint64_t *keys,
                 int64_t *starts, void *values, int64_t *n, char *error) {
    auto take = [&](auto *weights) {
        return tusk::take_many(*scan, max_keys, max_values, keys, starts, weights, n, error);
    };
    return scan->store->weight_size == 4 ? take(static_cast<float *>(values))
                                         : take(static_cast<double *>(values));
}

void ks_scan_close(ks_scan *scan) {
    db::iter_destroy(scan->iterator);
    delete scan;
}
