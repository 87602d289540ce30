/* A sealed file, mapped: the one reader that Python and both databases have.
 *
 * Header, footer, directory and metadata are checked when it is opened; each block of weights when
 * it is first read, and again when it is read after its memory was let go. Threads may read one
 * file together. Functions that can fail answer false with an error.
 */
#ifndef TUSK_SEALED_FILE_H
#define TUSK_SEALED_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SEALED_MEMORY (INT64_C(1) << 28)

/* One sentence, and what a database calls such an error. */
typedef struct sealed_error {
    const char *sqlstate;
    char text[512];
} sealed_error;

#define SEALED_MISSING "58P01"
#define SEALED_DAMAGED "XX001"
#define SEALED_UNKNOWN "42704"
#define SEALED_INVALID "22023"
#define SEALED_OTHER_VERSION "0A000"
#define SEALED_FAILED "58030"
#define SEALED_NO_MEMORY "53200"

__attribute__((format(printf, 3, 4))) bool sealed_refuse(sealed_error *e, const char *sqlstate,
                                                         const char *format, ...);

typedef struct sealed_file sealed_file;

typedef struct sealed_about {
    uint64_t dimension; /* number of features */
    uint64_t nonzero;   /* weights that are not 0 */
    uint64_t n_entries; /* blocks in its directory */
    uint64_t size;      /* bytes */
    uint32_t shift;
    uint32_t weight_size; /* 4 or 8 */
    const uint8_t *bytes; /* the whole file; not checked */
    const uint8_t *metadata;
    uint64_t metadata_length;
    char digest[65]; /* SHA-256 in hex, as the file says */
} sealed_about;

/* Takes over the descriptor of a plain file, whatever it answers. label: what errors call it;
 * digest: the SHA-256 in hex that the file must say, or NULL; memory: bytes of it that may count
 * as the process's, roughly. */
sealed_file *sealed_file_open(int descriptor, const char *label, const char *digest,
                              int64_t memory, sealed_error *e);
void sealed_file_close(sealed_file *f);
void sealed_file_describe(const sealed_file *f, sealed_about *about);
/* The index map of the store that it was trained in, once its checksum was found right. */
bool sealed_file_index(const sealed_file *f, const uint8_t **bytes, uint64_t *length,
                       sealed_error *e);
/* Whether the file has not been written, removed or renamed since it was opened. */
bool sealed_file_same(const sealed_file *f);
void sealed_file_limit(sealed_file *f, int64_t memory);
/* Unmaps what was read; it stays in the page cache. */
void sealed_file_let_go(sealed_file *f);

/* out[i] = weight of feature ids[i], 0 for ids below 0 and those never seen. _native: float or
 * double as the file has them. */
bool sealed_file_gather_native(sealed_file *f, const int64_t *ids, int64_t n, void *out,
                               sealed_error *e);
bool sealed_file_gather(sealed_file *f, const int32_t *ids, int64_t n, double *out,
                        sealed_error *e);
/* The weights of features first .. first + n - 1. */
bool sealed_file_range(sealed_file *f, uint64_t first, uint64_t n, double *out, sealed_error *e);
/* The weights of entries first .. last - 1 whose bits are not all 0, by rising feature id; ids and
 * weights (as the file has them) have room for (last - first) << shift. */
bool sealed_file_items(sealed_file *f, uint64_t first, uint64_t last, int64_t *ids, void *weights,
                       int64_t *n, sealed_error *e);

#ifdef __cplusplus
}
#endif
#endif
