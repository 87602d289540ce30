// The stamps of payloads that are not in memory: maps a key to its stamp, unless that is 0.
#pragma once

#include <cstdint>
#include <vector>

namespace tusk {

class Stamps {
public:
    double get(std::uint64_t key) const {
        if (entries_.empty())
            return 0;
        const Entry &entry = entries_[find(entries_, key)];
        return entry.key == key ? entry.stamp : 0;
    }

    // Strong guarantee: bad_alloc leaves it unchanged.
    void put(std::uint64_t key, double stamp) {
        if (stamp == 0 && get(key) == 0)
            return;
        if ((used_ + 1) * 4 > entries_.size() * 3)
            grow();
        Entry &entry = entries_[find(entries_, key)];
        used_ += entry.key != key;
        entry = {key, stamp};
    }

    std::size_t bytes() const { return entries_.size() * sizeof(Entry); }

private:
    static constexpr std::uint64_t NONE = ~std::uint64_t(0); // keys are below 2^63
    struct Entry {
        std::uint64_t key = NONE;
        double stamp = 0;
    };
    using Entries = std::vector<Entry>;

    // The position of a key, or where it would be: linear probing from its Fibonacci hash.
    static std::size_t find(const Entries &entries, std::uint64_t key) {
        std::size_t mask = entries.size() - 1;
        std::size_t at = (key * 0x9e3779b97f4a7c15u >> 20) & mask;
        while (entries[at].key != key && entries[at].key != NONE)
            at = (at + 1) & mask;
        return at;
    }

    void grow() {
        Entries larger(entries_.empty() ? 16 : entries_.size() * 2);
        for (const Entry &entry : entries_)
            if (entry.key != NONE)
                larger[find(larger, entry.key)] = entry;
        entries_.swap(larger);
    }

    Entries entries_;
    std::size_t used_ = 0;
};

} // namespace tusk
