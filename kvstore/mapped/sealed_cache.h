/* Open sealed files, for many predictions with a few models. Threads may share a cache. */
#ifndef TUSK_SEALED_CACHE_H
#define TUSK_SEALED_CACHE_H

#include "sealed_file.h"

#define SEALED_CACHE_FILES 16

typedef struct sealed_cache sealed_cache;

sealed_cache *sealed_cache_new(void); /* NULL: out of memory */
void sealed_cache_free(sealed_cache *c);

/* The file that a reference (reference.h) names below a root, valid until sealed_cache_release.
 * memory: roughly how many bytes all files of the cache together may have mapped. A file that
 * was changed or removed since it was opened is opened again. */
sealed_file *sealed_cache_acquire(sealed_cache *c, const char *root, const char *reference,
                                  size_t length, int64_t memory, sealed_error *e);
void sealed_cache_release(sealed_cache *c, sealed_file *f);

#endif
