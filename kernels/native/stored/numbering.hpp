#pragma once

#include <cstdint>
#include <vector>

namespace tusk {

// Numbers distinct ids in order of first occurrence.
class Numbering {
public:
    Numbering() : table_(1 << 12) {}

    uint32_t number(int32_t id) {
        size_t mask = table_.size() - 1;
        for (size_t at = home(id);; at = (at + 1) & mask) {
            if (table_[at].number == EMPTY)
                return add(at, id);
            if (table_[at].id == id)
                return table_[at].number;
        }
    }

    // Prefetches the entry of an id that will be looked up soon.
    void expect(int32_t id) const { __builtin_prefetch(&table_[home(id)]); }

    std::vector<int32_t> ids;

private:
    static constexpr uint32_t EMPTY = UINT32_MAX;
    struct Place {
        int32_t id = 0;
        uint32_t number = EMPTY;
    };

    size_t home(int32_t id) const {
        return (size_t)((uint64_t)id * 0x9e3779b97f4a7c15u >> (64 - bits_));
    }

    uint32_t add(size_t at, int32_t id) {
        uint32_t number = (uint32_t)ids.size();
        table_[at] = {id, number};
        ids.push_back(id);
        if (2 * ids.size() > table_.size())
            grow();
        return number;
    }

    void grow() {
        bits_ += 2;
        table_.assign((size_t)1 << bits_, Place{});
        for (size_t i = 0; i < ids.size(); i++) {
            size_t at = home(ids[i]);
            while (table_[at].number != EMPTY)
                at = (at + 1) & (table_.size() - 1);
            table_[at] = {ids[i], (uint32_t)i};
        }
    }

    std::vector<Place> table_;
    int bits_ = 12;
};

} // namespace tusk
