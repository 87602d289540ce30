/* The store's native half: plain C, called from Python with the GIL released. A weight is a
 * float (size 4) or a double (size 8); a store has one size. A partition is the array of
 * weights under one key. `starts`, of shape (n + 1), has the offset of each of n partitions in
 * an array of all of them: partition i is values[starts[i] .. starts[i + 1]). Functions that
 * can fail return a ks_code and write one sentence into error, which has KS_ERROR bytes.
 * ks_get, ks_put, ks_add and scans may all run at the same time on one store. */
#ifndef TUSK_KVSTORE_API_H
#define TUSK_KVSTORE_API_H

#include <stdint.h>

#include "../mapped/sealed_file.h"
#include "../mapped/sealed_format.h"
#include "frames.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KS_API __attribute__((visibility("default")))
#define KS_ERROR 512

enum ks_code { KS_OK = 0, KS_FAILED = 1, KS_CORRUPT = 2, KS_NO_MEMORY = 3 };

/* --- LevelDB --- */
typedef struct ks_store ks_store;
typedef struct ks_scan ks_scan;

typedef struct ks_options {
    int32_t create;         /* 1: the database must not exist; 0: it must */
    int32_t weight_size;    /* 4 or 8 */
    int64_t write_buffer;   /* bytes of a memtable; LevelDB keeps two */
    int64_t block_cache;    /* bytes */
    int64_t max_file_size;  /* bytes of a table */
    int64_t block_size;     /* bytes of a block in a table, roughly */
    int32_t max_open_files; /* tables kept mapped, and ten other files */
    int32_t bloom_bits;     /* per key; 0: no Bloom filters */
} ks_options;

typedef struct ks_counters { /* since the store was opened */
    int64_t requests;        /* keys requested by ks_get, and by ks_add before it writes */
    int64_t found;           /* those of them that were found */
    int64_t writes;          /* keys written */
    int64_t batches;         /* write batches */
    int64_t bytes_read;      /* of payloads, headers included */
    int64_t bytes_written;
} ks_counters;

/* Finds LevelDB's C interface in a shared library or in a library it is linked against. Call it
 * once. */
KS_API int ks_load(const char *library, char *error);
KS_API int ks_open(const char *path, const ks_options *options, ks_store **store, char *error);
/* No other call may run on the store. */
KS_API void ks_close(ks_store *store);
KS_API void ks_count(ks_store *store, ks_counters *counters);
/* Copies partitions into out. found may be NULL. A missing key reads as zeros. It is an error
 * if a partition's number of weights differs from what starts says. */
KS_API int ks_get(ks_store *store, const uint64_t *keys, int64_t n, const int64_t *starts,
                  void *out, uint8_t *found, char *error);
/* Writes partitions in one atomic batch. sync: flush to the disk before returning. */
KS_API int ks_put(ks_store *store, const uint64_t *keys, int64_t n, const int64_t *starts,
                  const void *values, int sync, char *error);
/* Updates of n partitions: adds deltas[j] to weight slots[j] of partition i for j in entries[i]
 * .. entries[i + 1]. widths[i] is the number of weights to create if the key does not exist
 * yet. */
typedef struct ks_updates {
    const uint64_t *keys;   /* (n,) */
    const uint32_t *widths; /* (n,) */
    const int64_t *entries; /* (n + 1,) */
    const uint32_t *slots;  /* (entries[n],), as the deltas */
    const void *deltas;     /* of the store's weights */
    int64_t n;
} ks_updates;
/* Get, merge, put. No update is lost among threads that call this. It writes the keys in
 * several batches, not all in one. */
KS_API int ks_add(ks_store *store, const ks_updates *updates, char *error);
/* Everything written before is on the disk when it returns. */
KS_API int ks_sync(ks_store *store, char *error);
/* A property of LevelDB as text, such as "leveldb.stats"; free it with ks_free. NULL if there
 * is none. */
KS_API char *ks_property(ks_store *store, const char *name);
KS_API void ks_free(char *text);

/* Scans partitions in key order from `first` on, as they are when the scan begins. */
KS_API ks_scan *ks_scan_open(ks_store *store, uint64_t first);
/* Some partitions of a scan: partition i has weights starts[i] .. starts[i + 1]. */
typedef struct ks_page {
    int64_t max_keys, max_weights; /* capacity of the arrays */
    uint64_t *keys;                /* (max_keys,) */
    int64_t *starts;               /* (max_keys + 1,) */
    void *weights;                 /* (max_weights,) of the store's */
    int64_t n;                     /* out: keys; 0 at the end of the scan */
} ks_page;
/* Reads the next partitions. A single partition wider than max_weights is an error. */
KS_API int ks_scan_next(ks_scan *scan, ks_page *page, char *error);
KS_API void ks_scan_close(ks_scan *scan);

/* --- frames (frames.h) --- */
typedef struct ks_frame_counters { /* since the frames were opened */
    int64_t wanted;                /* keys requested: hits + pushed + requests */
    int64_t hits;                  /* in memory, or being read by another worker */
    int64_t pushed;                /* read by another worker and delivered before this one asked */
    int64_t requests;              /* read from LevelDB */
    int64_t found;                 /* those of them that were found */
    int64_t evicted;
    int64_t written;
    int64_t bytes_read; /* of payloads, headers included */
    int64_t bytes_written;
    int64_t reading; /* nanoseconds, of all workers */
    int64_t writing;
    int64_t waiting; /* for payloads that other workers read */
} ks_frame_counters;

/* Workers are 0 .. workers - 1. pushes: whether they deliver payloads that they read to those
 * that expect them. all_bytes: of the frames of all keys that will be requested, or 0 if
 * unknown. If all fit in memory, one call may request all of them. */
typedef struct ks_sharing {
    int32_t workers, pushes;
    int64_t all_bytes;
} ks_sharing;
/* Opens the frames of a store within `memory` bytes. keep_stamps: a frame that leaves memory gets
 * its stamp back when it returns (this takes 16 bytes a key or more, in addition to memory);
 * otherwise its stamp is 0 again. */
KS_API int ks_frames_open(ks_store *store, int64_t memory, const ks_sharing *sharing,
                          int32_t keep_stamps, tusk_frames **frames, char *error);
/* Bytes of memory that the frames of one call may use, and bytes of a frame with this many
 * weights.
 */
KS_API int64_t ks_frames_share(int64_t memory, int32_t workers);
KS_API int64_t ks_frame_bytes(int64_t width, int32_t weight_size);
/* Drops all frames without writing them. None may be held. */
KS_API void ks_frames_close(tusk_frames *frames);
/* Writes all changed frames. No worker may hold a frame that it writes to. */
KS_API int ks_frames_flush(tusk_frames *frames, char *error);
/* Keeps workers out until resume, so that the store can be closed. KS_FAILED if a worker is
 * inside. */
KS_API int ks_frames_pause(tusk_frames *frames, char *error);
/* Lets workers in again. store: the store that is open now, or NULL; then calls that need it
 * fail. */
KS_API void ks_frames_resume(tusk_frames *frames, ks_store *store);
KS_API void ks_frames_count(tusk_frames *frames, ks_frame_counters *counters);
KS_API void ks_frames_access(tusk_frames *frames, tusk_frame_access *out);
/* See tusk_frame_access. */
KS_API int ks_acquire(tusk_frames *frames, int32_t worker, const uint64_t *keys,
                      const uint32_t *widths, int64_t n, tusk_frame **out,
                      int (*cancelled)(void *), void *argument, char *error);
KS_API void ks_release(tusk_frames *frames, int32_t worker, tusk_frame *const *held, int64_t n,
                       int changed);
KS_API void ks_expect(tusk_frames *frames, int32_t worker, const uint64_t *keys, int64_t n);

/* --- sealed files --- */
typedef sealed_entry ks_entry;

/* Encodes whole blocks as they will lie in the file from offset on, from their non-zero weights
 * by ascending feature id. out has room for n * (weight_size + 10) bytes, entries for n
 * entries. Returns the bytes written. */
KS_API int64_t ks_seal(const int64_t *ids, const void *weights, int64_t n, uint64_t offset,
                       uint32_t shift, uint32_t weight_size, uint8_t *out, ks_entry *entries,
                       int64_t *n_entries);
/* The reader, documented in ../mapped/sealed_file.h. */
KS_API int ks_sealed_open(int descriptor, const char *label, const char *digest, int64_t memory,
                          sealed_file **file, char *error);
KS_API void ks_sealed_close(sealed_file *file);
KS_API void ks_sealed_describe(const sealed_file *file, sealed_about *about);
KS_API int ks_sealed_index(const sealed_file *file, const uint8_t **bytes, uint64_t *length,
                           char *error);
KS_API void ks_sealed_let_go(sealed_file *file);
KS_API int ks_sealed_gather(sealed_file *file, const int64_t *ids, int64_t n, void *out,
                            char *error);
KS_API int ks_sealed_items(sealed_file *file, uint64_t first, uint64_t last, int64_t *ids,
                           void *weights, int64_t *n, char *error);

/* Default directory of stores, an absolute path (../mapped/default_root.h). */
KS_API int ks_default_root(char *path, int64_t size);

/* CRC-32C (Castagnoli) of bytes, continuing from the CRC of the preceding bytes; start with 0. */
KS_API uint32_t ks_crc(uint32_t crc, const void *bytes, int64_t n);

#ifdef __cplusplus
}
#endif

#endif
