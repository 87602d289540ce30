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

// Reads the partition at the iterator; sets *full if there is no room for it.
template <class Weight>
int take(const ks_scan &scan, std::uint64_t *key, int64_t capacity, Weight *out, int64_t *width,
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
    *full = *width > capacity;
    if (!*full && !decode(bytes, length, stored, out))
        return corrupt(*key, "has a slot outside", error);
    return KS_OK;
}

template <class Weight> int take_many(ks_scan &scan, ks_page &page, char *error) {
    auto *weights = static_cast<Weight *>(page.weights);
    int64_t n = 0;
    bool full = false;
    page.starts[0] = page.n = 0;
    for (; n < page.max_keys && db::iter_valid(scan.iterator); db::iter_next(scan.iterator)) {
        int64_t width = 0, used = page.starts[n], room = page.max_weights - used;
        if (int code = take(scan, &page.keys[n], room, weights + used, &width, &full, error))
            return code;
        if (full)
            break;
        page.starts[++n] = used + width;
    }
    page.n = n;
    if (full && !n)
        return corrupt(page.keys[0], "is wider than any partition of the layout", error);
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

int ks_scan_next(ks_scan *scan, ks_page *page, char *error) {
    return scan->store->weight_size == 4 ? tusk::take_many<float>(*scan, *page, error)
                                         : tusk::take_many<double>(*scan, *page, error);
}

void ks_scan_close(ks_scan *scan) {
    db::iter_destroy(scan->iterator);
    delete scan;
}
