// The blocks of a sealed file: the weights of 2^shift consecutive features each.
//
// A block is the shorter of
//   dense:  2^shift weights
//   pairs:  the weights whose bits are not all 0, then their slots (uint16), ascending
// followed by zeros up to a multiple of 8, which its CRC covers.
#include <algorithm>

#include "api.h"
#include "payload.hpp"

namespace tusk {
namespace {

std::size_t block_length(std::uint32_t count, std::uint32_t shift, std::size_t weight_size) {
    std::size_t length =
        count == KS_DENSE ? weight_size << shift : count * (weight_size + sizeof(std::uint16_t));
    return (length + 7) / 8 * 8;
}

// One block of n weights; returns its length.
template <class Weight>
std::size_t seal_block(const int64_t *ids, const Weight *weights, std::size_t n,
                       std::uint32_t shift, std::uint8_t *out, ks_entry &entry) {
    std::size_t width = std::size_t(1) << shift, mask = width - 1;
    bool dense = n * (sizeof(Weight) + 2) >= width * sizeof(Weight);
    entry.count = dense ? KS_DENSE : static_cast<std::uint32_t>(n);
    std::size_t length = block_length(entry.count, shift, sizeof(Weight));
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

constexpr std::uint8_t RIGHT = 1, TOUCHED = 2;

bool lies_inside(const ks_file &file, const ks_entry &entry) {
    if (entry.count != KS_DENSE && entry.count > std::uint64_t(1) << file.shift)
        return false;
    std::size_t length = block_length(entry.count, file.shift, file.weight_size);
    return entry.offset % 8 == 0 && entry.offset <= file.data_end &&
           length <= file.data_end - entry.offset;
}

// Whether a block's place and bytes are right; looked at once, unless it is wrong. A thread that
// sees another's mark sees the same bytes: the file never changes.
bool is_right(const ks_file &file, const ks_entry &entry) {
    auto *mark = file.checked + (&entry - file.entries);
    std::uint8_t marks = __atomic_load_n(mark, __ATOMIC_RELAXED);
    if (marks == (RIGHT | TOUCHED))
        return true;
    if (!(marks & RIGHT) && entry.count) {
        std::size_t length = block_length(entry.count, file.shift, file.weight_size);
        if (!lies_inside(file, entry) ||
            keyed_crc(entry.block, file.base + entry.offset, length) != entry.crc)
            return false;
    }
    if (entry.count)
        __atomic_fetch_add(file.touched, 1, __ATOMIC_RELAXED);
    __atomic_store_n(mark, std::uint8_t(RIGHT | TOUCHED), __ATOMIC_RELAXED);
    return true;
}

// The entry of a block, or nullptr.
const ks_entry *find(const ks_file &file, std::uint64_t block) {
    if (file.direct)
        return block < file.n_entries ? file.entries + block : nullptr;
    auto below = [](const ks_entry &entry, std::uint64_t number) { return entry.block < number; };
    auto *end = file.entries + file.n_entries;
    auto *entry = std::lower_bound(file.entries, end, block, below);
    return entry < end && entry->block == block ? entry : nullptr;
}

template <class Weight>
Weight weight_at(const ks_file &file, const ks_entry &entry, std::uint64_t slot) {
    if (!entry.count)
        return 0;
    const std::uint8_t *block = file.base + entry.offset;
    auto *weights = reinterpret_cast<const Weight *>(block); // aligned: offset % 8 == 0
    if (entry.count == KS_DENSE)
        return weights[slot];
    auto *slots = reinterpret_cast<const std::uint16_t *>(block + entry.count * sizeof(Weight));
    auto *found = std::lower_bound(slots, slots + entry.count, slot);
    return found < slots + entry.count && *found == slot ? weights[found - slots] : 0;
}

template <class Weight>
int gather(const ks_file &file, const int64_t *ids, int64_t n, Weight *out, int64_t *bad) {
    std::uint64_t mask = (std::uint64_t(1) << file.shift) - 1;
    const ks_entry *entry = nullptr; // of the block before, often the same
    std::uint64_t held = ~std::uint64_t(0);
    for (int64_t i = 0; i < n; i++) {
        auto id = static_cast<std::uint64_t>(ids[i]);
        out[i] = 0;
        if (id >= file.dimension) // ids below 0 too
            continue;
        if (std::uint64_t block = id >> file.shift; block != held) {
            held = block;
            entry = find(file, block);
            if (entry && !is_right(file, *entry)) {
                *bad = entry - file.entries;
                return KS_CORRUPT;
            }
        }
        if (entry)
            out[i] = weight_at<Weight>(file, *entry, id & mask);
    }
    return KS_OK;
}

template <class Weight>
int unseal(const ks_file &file, int64_t first, int64_t last, int64_t *ids, Weight *weights,
           int64_t *n, int64_t *bad) {
    std::size_t width = std::size_t(1) << file.shift;
    *n = 0;
    for (*bad = first; *bad < last; ++*bad) {
        const ks_entry &entry = file.entries[*bad];
        if (!is_right(file, entry))
            return KS_CORRUPT;
        auto base = static_cast<int64_t>(entry.block << file.shift);
        auto *block = reinterpret_cast<const Weight *>(file.base + entry.offset);
        bool dense = entry.count == KS_DENSE;
        auto *slots = reinterpret_cast<const std::uint16_t *>(block + entry.count);
        for (std::size_t i = 0; i < (dense ? width : entry.count); i++) {
            if (is_zero(block[i]))
                continue;
            ids[*n] = base + static_cast<int64_t>(dense ? i : slots[i]);
            weights[(*n)++] = block[i];
        }
    }
    return KS_OK;
}

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

int ks_gather(const ks_file *file, const int64_t *ids, int64_t n, void *out, int64_t *bad) {
    if (file->weight_size == 4)
        return tusk::gather(*file, ids, n, static_cast<float *>(out), bad);
    return tusk::gather(*file, ids, n, static_cast<double *>(out), bad);
}

int ks_unseal(const ks_file *file, int64_t first, int64_t last, int64_t *ids, void *weights,
              int64_t *n, int64_t *bad) {
    if (file->weight_size == 4)
        return tusk::unseal(*file, first, last, ids, static_cast<float *>(weights), n, bad);
    return tusk::unseal(*file, first, last, ids, static_cast<double *>(weights), n, bad);
}
