/* A sealed file, mapped: the one reader for Python and both databases.
 *
 * Header, footer, directory and metadata are checked when the file is opened. Each block of
 * weights is checked when it is first read, and again when it is read after its memory was
 * released. Threads may read one file together. Functions that can fail return false with an
 * error.
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

/* One sentence, and the kind of error for databases. */
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
    char digest[65]; /* SHA-256 in hex, as stored in the file */
} sealed_about;

/* Takes ownership of the descriptor of a plain file, even if it fails. label: the file's name
 * in errors; digest: the SHA-256 in hex that the file must contain, or NULL; memory: roughly
 * how many bytes of the file may count as the process's. */
sealed_file *sealed_file_open(int descriptor, const char *label, const char *digest,
                              int64_t memory, sealed_error *e);
void sealed_file_close(sealed_file *f);
void sealed_file_describe(const sealed_file *f, sealed_about *about);
/* The index map of the store that the model was trained in, after its checksum was verified. */
bool sealed_file_index(const sealed_file *f, const uint8_t **bytes, uint64_t *length,
                       sealed_error *e);
/* Whether the file has not been written, removed or renamed since it was opened. */
bool sealed_file_same(const sealed_file *f);
void sealed_file_limit(sealed_file *f, int64_t memory);
/* Unmaps the pages that were read; their data stays in the page cache. */
void sealed_file_let_go(sealed_file *f);

/* out[i] = weight of feature ids[i]; 0 for negative ids and features never seen. _native: float
 * or double, as in the file. */
bool sealed_file_gather_native(sealed_file *f, const int64_t *ids, int64_t n, void *out,
                               sealed_error *e);
bool sealed_file_gather(sealed_file *f, const void *ids, bool wide, int64_t n, double *out,
                        sealed_error *e);
/* The weights of features first .. first + n - 1. */
bool sealed_file_range(sealed_file *f, uint64_t first, uint64_t n, double *out, sealed_error *e);
/* The weights of entries first .. last - 1 whose bits are not all 0, by ascending feature id.
 * ids and weights (of the file's type) have room for (last - first) << shift. */
bool sealed_file_items(sealed_file *f, uint64_t first, uint64_t last, int64_t *ids, void *weights,
                       int64_t *n, sealed_error *e);

#ifdef __cplusplus
}
#endif
#endif
