/* Memory of rows that stays mapped between queries, because clearing new pages costs about as
 * much as packing rows into them. The first pieces keep their pages. The system may reclaim the
 * pages of the others (MADV_FREE), so that nothing is stored in them. The caller holds a lock. */
#ifndef TUSK_SLAB_CACHE_H
#define TUSK_SLAB_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TUSK_SLAB_BYTES ((size_t)2 << 20)
#define TUSK_MOST_CACHED 512

typedef struct tusk_slab_cache {
    struct {
        void *slab;
        size_t size;
        bool warm; /* its pages are kept */
    } at[TUSK_MOST_CACHED];
    int n;
    size_t bytes, warm_bytes;
} tusk_slab_cache;

/* A slab of this size, preferably a warm one; NULL: there is none. */
void *tusk_slab_cache_take(tusk_slab_cache *cache, size_t size);
/* Caches a slab. False if there is no room; a quarter of the budget is for slabs beyond the
   warm ones. */
bool tusk_slab_cache_put(tusk_slab_cache *cache, void *slab, size_t size, int64_t budget);
void tusk_slab_cache_empty(tusk_slab_cache *cache);

#endif
