/* A batch of groups in a file, for another process. The file has the batch's structures and
 * rows as they are in memory, with file offsets instead of pointers. The client's process
 * copies its rows into the file once. The helper maps the file, turns the offsets into pointers
 * and trains on the rows in place. */
#ifndef TUSK_PARCEL_H
#define TUSK_PARCEL_H

#include "../../database.h"

/* At the start of the file, after the space for its slab's header. */
typedef struct parcel {
    int64_t groups, spec, specs, flaws, remarks; /* offsets of the batch's arrays */
    int64_t store_root, program, directory;      /* offsets of texts; 0: NULL */
    int64_t n_groups, n_remarks, statement;      /* the batch's fields */
    int32_t n_specs, request, threads, most_threads, unshared, labels;
    double began, weight;
    int64_t account;  /* identifies the database */
    int64_t budget;   /* of its account */
    int64_t resident; /* bytes of rows that the account has in memory */
} parcel;

typedef struct parcel_file {
    int file;
    int64_t bytes;
    int spilled; /* whether it is in the temporary directory */
} parcel_file;

/* Writes a batch into a new file. On failure the batch's error says why. */
bool parcel_write(tusk_batch *batch, parcel_file *out);
void parcel_close(tusk_memory *memory, const parcel_file *written);

/* A new file of `bytes` bytes without a name: in memory if the budget has room for it, otherwise
 * in the temporary directory. Its blocks are allocated, so that writing to a map of it cannot
 * fail. False, and errno, if there is no room. */
bool parcel_new(tusk_memory *memory, parcel_file *file);

/* The batch in a file that is mapped as this slab, which outlives it. The caller sets the account
 * and the context. False if memory is out. */
bool parcel_read(tusk_slab *slab, tusk_batch *batch);
static inline const parcel *parcel_of(const tusk_slab *slab) {
    return (const parcel *)((const char *)slab + TUSK_SLAB_HEADER);
}
/* The text at an offset; NULL for none. */
static inline const char *parcel_text(const tusk_slab *slab, int64_t offset) {
    return offset ? (const char *)slab + offset : NULL;
}

#endif
