// A write batch of partitions.
#pragma once

#include <vector>

#include "payload.hpp"
#include "reading.hpp"

namespace tusk {

class Batch {
public:
    Batch() : batch_(leveldb::writebatch_create()) {}
    ~Batch() { leveldb::writebatch_destroy(batch_); }
    Batch(const Batch &) = delete;
    Batch &operator=(const Batch &) = delete;

    template <class Weight>
    void put(std::uint64_t key, const Weight *weights, std::size_t width, Tally &tally) {
        encode(key, weights, width, bytes_);
        leveldb::writebatch_put(batch_, Key(key).data(), sizeof(Key),
                                reinterpret_cast<const char *>(bytes_.data()), bytes_.size());
        tally.writes++;
        tally.bytes_written += static_cast<int64_t>(bytes_.size());
    }

    int write(const leveldb::WriteOptions *options, Tally &tally, char *error) {
        tally.batches++;
        return tusk::write(tally.store, options, batch_, error);
    }

private:
    leveldb::WriteBatch *batch_;
    std::vector<std::uint8_t> bytes_;
};

} // namespace tusk
