// Opens and closes a store, and makes a batch durable.
#include <memory>

#include "store.hpp"

namespace db = tusk::leveldb;

ks_store::~ks_store() {
    if (db)
        db::close(db);
    if (options)
        db::options_destroy(options);
    if (cache)
        db::cache_destroy(cache);
    if (filter)
        db::filterpolicy_destroy(filter);
    for (auto *read : {reading, scanning})
        if (read)
            db::readoptions_destroy(read);
    for (auto *write : {writing, syncing})
        if (write)
            db::writeoptions_destroy(write);
}

static void configure(ks_store &store, const ks_options &given) {
    db::Options *options = store.options = db::options_create();
    db::options_set_create_if_missing(options, given.create != 0);
    db::options_set_error_if_exists(options, given.create != 0);
    db::options_set_paranoid_checks(options, 1);
    db::options_set_compression(options, 0); // weights do not shrink
    db::options_set_write_buffer_size(options, static_cast<std::size_t>(given.write_buffer));
    db::options_set_max_open_files(options, given.max_open_files);
    db::options_set_block_size(options, static_cast<std::size_t>(given.block_size));
    db::options_set_max_file_size(options, static_cast<std::size_t>(given.max_file_size));
    store.cache = db::cache_create_lru(static_cast<std::size_t>(given.block_cache));
    db::options_set_cache(options, store.cache);
    if (given.bloom_bits) {
        store.filter = db::filterpolicy_create_bloom(given.bloom_bits);
        db::options_set_filter_policy(options, store.filter);
    }
    store.reading = db::readoptions_create();
    store.scanning = db::readoptions_create();
    for (auto *read : {store.reading, store.scanning})
        db::readoptions_set_verify_checksums(read, 1);
    db::readoptions_set_fill_cache(store.scanning, 0);
    store.writing = db::writeoptions_create();
    store.syncing = db::writeoptions_create();
    db::writeoptions_set_sync(store.syncing, 1);
}

int ks_open(const char *path, const ks_options *options, ks_store **store, char *error) {
    tusk::SignalsBlocked blocked;
    std::unique_ptr<ks_store> made(new (std::nothrow) ks_store);
    if (!made)
        return KS_NO_MEMORY;
    made->weight_size = options->weight_size;
    made->block_size = static_cast<std::size_t>(options->block_size);
    configure(*made, *options);
    char *message = nullptr;
    made->db = db::open(made->options, path, &message);
    if (message)
        return tusk::failed(message, error);
    *store = made.release();
    return KS_OK;
}

void ks_close(ks_store *store) {
    delete store;
}

void ks_count(ks_store *store, ks_counters *counters) {
    *counters = {store->requests, store->found,      store->writes,
                 store->batches,  store->bytes_read, store->bytes_written};
}

int ks_sync(ks_store *store, char *error) {
    db::WriteBatch *empty = db::writebatch_create();
    int code = tusk::write(*store, store->syncing, empty, error);
    db::writebatch_destroy(empty);
    return code;
}

char *ks_property(ks_store *store, const char *name) {
    return db::property_value(store->db, name);
}

void ks_free(char *text) {
    db::free(text);
}
