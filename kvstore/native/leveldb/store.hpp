// A LevelDB database of partitions.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <new>
#include <pthread.h>
#include <signal.h>
#include <string_view>

#include "../api.h"
#include "leveldb.hpp"

// Updates lock the stripe of their key, so two of them never merge into the same old payload.
constexpr std::size_t STRIPES = 32;

struct ks_store {
    tusk::leveldb::Db *db = nullptr;
    tusk::leveldb::Cache *cache = nullptr;
    tusk::leveldb::Filter *filter = nullptr;
    tusk::leveldb::Options *options = nullptr;
    tusk::leveldb::ReadOptions *reading = nullptr, *scanning = nullptr;
    tusk::leveldb::WriteOptions *writing = nullptr, *syncing = nullptr;
    int32_t weight_size = 4;
    std::size_t block_size = 4096;
    std::array<std::mutex, STRIPES> stripes;
    std::atomic<std::uint32_t> turns = 0; // where the next ks_add begins among the stripes
    std::atomic<bool> torn = false;       // a write failed: the log ends in half a record
    std::atomic<int64_t> requests = 0, found = 0, writes = 0, batches = 0;
    std::atomic<int64_t> bytes_read = 0, bytes_written = 0;

    ~ks_store();
};

namespace tusk {

// LevelDB starts its compaction thread from the first call that needs one. That thread must block
// signals: a host such as PostgreSQL wants them on its own threads.
class SignalsBlocked {
public:
    SignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_;
};

// LevelDB sorts keys by their bytes, so numbers are stored big-endian to keep their order.
struct Key {
    explicit Key(std::uint64_t number) : bytes(__builtin_bswap64(number)) {}
    const char *data() const { return reinterpret_cast<const char *>(&bytes); }
    std::uint64_t bytes;
};

// Copies LevelDB's message and frees it.
inline int failed(char *message, char *error) {
    std::snprintf(error, KS_ERROR, "%s", message);
    leveldb::free(message);
    bool corrupt = std::string_view(error).starts_with("Corruption");
    return corrupt ? KS_CORRUPT : KS_FAILED;
}

inline int corrupt(std::uint64_t key, const char *what, char *error) {
    std::snprintf(error, KS_ERROR, "the payload of key %llu %s",
                  static_cast<unsigned long long>(key), what);
    return KS_CORRUPT;
}

// LevelDB refuses to read its log after half a record. So nothing more is made durable: it would
// replace the last checkpoint with data that cannot be read.
inline int torn(char *error) {
    std::snprintf(error, KS_ERROR,
                  "a write failed before: close the store and resume from its last checkpoint");
    return KS_FAILED;
}

// Writes a batch.
inline int write(ks_store &store, const leveldb::WriteOptions *options, leveldb::WriteBatch *batch,
                 char *error) {
    if (store.torn)
        return torn(error);
    SignalsBlocked blocked;
    char *message = nullptr;
    leveldb::write(store.db, options, batch, &message);
    if (!message)
        return KS_OK;
    store.torn = true;
    return failed(message, error);
}

// Runs work, which may run out of memory.
template <class Work> int guarded(Work work, char *error) {
    try {
        return work();
    } catch (const std::bad_alloc &) {
        std::snprintf(error, KS_ERROR, "there is no memory left for a batch of partitions");
        return KS_NO_MEMORY;
    }
}

} // namespace tusk
