// LevelDB's C interface (leveldb/c.h, unchanged since 1.21), found at run time because plyvel's
// wheel contains the library without headers.
#pragma once

#include <cstddef>

namespace tusk::leveldb {

struct Db;
struct Cache;
struct Filter;
struct Iterator;
struct Options;
struct ReadOptions;
struct WriteBatch;
struct WriteOptions;

#define TUSK_LEVELDB(X)                                                                           \
    X(Db *, open, (const Options *, const char *, char **))                                       \
    X(void, close, (Db *))                                                                        \
    X(char *, get,                                                                                \
      (Db *, const ReadOptions *, const char *, std::size_t, std::size_t *, char **))             \
    X(void, write, (Db *, const WriteOptions *, WriteBatch *, char **))                           \
    X(char *, property_value, (Db *, const char *))                                               \
    X(void, free, (void *))                                                                       \
    X(Iterator *, create_iterator, (Db *, const ReadOptions *))                                   \
    X(void, iter_destroy, (Iterator *))                                                           \
    X(unsigned char, iter_valid, (const Iterator *))                                              \
    X(void, iter_seek, (Iterator *, const char *, std::size_t))                                   \
    X(void, iter_next, (Iterator *))                                                              \
    X(const char *, iter_key, (const Iterator *, std::size_t *))                                  \
    X(const char *, iter_value, (const Iterator *, std::size_t *))                                \
    X(void, iter_get_error, (const Iterator *, char **))                                          \
    X(WriteBatch *, writebatch_create, ())                                                        \
    X(void, writebatch_destroy, (WriteBatch *))                                                   \
    X(void, writebatch_put, (WriteBatch *, const char *, std::size_t, const char *, std::size_t)) \
    X(Options *, options_create, ())                                                              \
    X(void, options_destroy, (Options *))                                                         \
    X(void, options_set_create_if_missing, (Options *, unsigned char))                            \
    X(void, options_set_error_if_exists, (Options *, unsigned char))                              \
    X(void, options_set_paranoid_checks, (Options *, unsigned char))                              \
    X(void, options_set_write_buffer_size, (Options *, std::size_t))                              \
    X(void, options_set_max_open_files, (Options *, int))                                         \
    X(void, options_set_cache, (Options *, Cache *))                                              \
    X(void, options_set_block_size, (Options *, std::size_t))                                     \
    X(void, options_set_max_file_size, (Options *, std::size_t))                                  \
    X(void, options_set_compression, (Options *, int))                                            \
    X(void, options_set_filter_policy, (Options *, Filter *))                                     \
    X(Cache *, cache_create_lru, (std::size_t))                                                   \
    X(void, cache_destroy, (Cache *))                                                             \
    X(Filter *, filterpolicy_create_bloom, (int))                                                 \
    X(void, filterpolicy_destroy, (Filter *))                                                     \
    X(ReadOptions *, readoptions_create, ())                                                      \
    X(void, readoptions_destroy, (ReadOptions *))                                                 \
    X(void, readoptions_set_verify_checksums, (ReadOptions *, unsigned char))                     \
    X(void, readoptions_set_fill_cache, (ReadOptions *, unsigned char))                           \
    X(WriteOptions *, writeoptions_create, ())                                                    \
    X(void, writeoptions_destroy, (WriteOptions *))                                               \
    X(void, writeoptions_set_sync, (WriteOptions *, unsigned char))

#define TUSK_DECLARE(result, name, arguments) extern result(*name) arguments;
TUSK_LEVELDB(TUSK_DECLARE)
#undef TUSK_DECLARE

} // namespace tusk::leveldb
