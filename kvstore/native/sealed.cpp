// Sealed files for Python: blocks are written here, and read by the reader that the databases also
// use (../mapped/sealed_file.h).
#include "../mapped/default_root.h"
#include "../mapped/sealed_file.h"
#include "api.h"
#include "leveldb/payload.hpp"

namespace tusk {
namespace {

// Encodes one block of n weights; returns its length.
template <class Weight>
std::size_t seal_block(const int64_t *ids, const Weight *weights, std::size_t n,
                       std::uint32_t shift, std::uint8_t *out, ks_entry &entry) {
    std::size_t width = std::size_t(1) << shift, mask = width - 1;
    bool dense = n * (sizeof(Weight) + 2) >= width * sizeof(Weight);
    entry.count = dense ? SEALED_DENSE : static_cast<std::uint32_t>(n);
    std::size_t length = sealed_block_length(entry.count, shift, sizeof(Weight));
    std::memset(out, 0, length);
    std::uint8_t *slots = out + n * sizeof(Weight);
    for (std::size_t i = 0; i < n; i++) {
        auto slot = static_cast<std::uint16_t>(static_cast<std::uint64_t>(ids[i]) & mask);
        std::size_t place = dense ? slot : i;
        std::memcpy(out + place * sizeof(Weight), &weights[i], sizeof(Weight));
        if (!dense)
            std::memcpy(slots + i * sizeof slot, &slot, sizeof slot);
    }
    entry.crc = keyed_crc(entry.block, out, length);
    return length;
}

template <class Weight>
int64_t seal(const int64_t *ids, const Weight *weights, int64_t n, std::uint64_t offset,
             std::uint32_t shift, std::uint8_t *out, ks_entry *entries, int64_t *n_entries) {
    std::uint8_t *begin = out;
    *n_entries = 0;
    for (int64_t i = 0, end; i < n; i = end) {
        ks_entry &entry = entries[(*n_entries)++];
        entry.block = static_cast<std::uint64_t>(ids[i]) >> shift;
        entry.offset = offset + static_cast<std::uint64_t>(out - begin);
        for (end = i; end < n && static_cast<std::uint64_t>(ids[end]) >> shift == entry.block;)
            end++;
        out +=
            seal_block(ids + i, weights + i, static_cast<std::size_t>(end - i), shift, out, entry);
    }
    return out - begin;
}

// Returns the reader's answer, and copies its sentence to where ks_ functions write theirs.
template <class Call> int answer(char *error, Call call) {
    sealed_error e;
    if (call(&e))
        return KS_OK;
    std::memcpy(error, e.text, KS_ERROR);
    return std::strcmp(e.sqlstate, SEALED_NO_MEMORY) == 0 ? KS_NO_MEMORY : KS_FAILED;
}

static_assert(sizeof(sealed_error::text) == KS_ERROR);

} // namespace
} // namespace tusk

int64_t ks_seal(const int64_t *ids, const void *weights, int64_t n, uint64_t offset,
                uint32_t shift, uint32_t weight_size, uint8_t *out, ks_entry *entries,
                int64_t *n_entries) {
    auto seal = [&](auto *typed) {
        return tusk::seal(ids, typed, n, offset, shift, out, entries, n_entries);
    };
    return weight_size == 4 ? seal(static_cast<const float *>(weights))
                            : seal(static_cast<const double *>(weights));
}

int ks_sealed_open(int descriptor, const char *label, const char *digest, int64_t memory,
                   sealed_file **file, char *error) {
    return tusk::answer(error, [=](sealed_error *e) {
        return (*file = sealed_file_open(descriptor, label, digest, memory, e)) != nullptr;
    });
}

void ks_sealed_close(sealed_file *file) {
    sealed_file_close(file);
}

void ks_sealed_describe(const sealed_file *file, sealed_about *about) {
    sealed_file_describe(file, about);
}

int ks_sealed_index(const sealed_file *file, const uint8_t **bytes, uint64_t *length,
                    char *error) {
    return tusk::answer(
        error, [=](sealed_error *e) { return sealed_file_index(file, bytes, length, e); });
}

void ks_sealed_let_go(sealed_file *file) {
    sealed_file_let_go(file);
}

int ks_sealed_gather(sealed_file *file, const int64_t *ids, int64_t n, void *out, char *error) {
    return tusk::answer(
        error, [=](sealed_error *e) { return sealed_file_gather_native(file, ids, n, out, e); });
}

int ks_sealed_items(sealed_file *file, uint64_t first, uint64_t last, int64_t *ids, void *weights,
                    int64_t *n, char *error) {
    return tusk::answer(error, [=](sealed_error *e) {
        return sealed_file_items(file, first, last, ids, weights, n, e);
    });
}

int ks_default_root(char *path, int64_t size) {
    return tusk_default_root(path, static_cast<std::size_t>(size)) ? KS_OK : KS_FAILED;
}

uint32_t ks_crc(uint32_t crc, const void *bytes, int64_t n) {
    return tusk::crc32c(crc, bytes, static_cast<std::size_t>(n));
}
