#define _GNU_SOURCE
#include "slab_cache.h"

#include <sys/mman.h>

#define WARM_BYTES (32 * TUSK_SLAB_BYTES)
#define MOST_BYTES (512 * TUSK_SLAB_BYTES)
#define LARGEST (8 * TUSK_SLAB_BYTES)

static int find(const tusk_slab_cache *cache, size_t size) {
    int found = -1;
    for (int i = 0; i < cache->n; i++) {
        if (cache->at[i].size != size)
            continue;
        found = i;
        if (cache->at[i].warm)
            break;
    }
    return found;
}

void *tusk_slab_cache_take(tusk_slab_cache *cache, size_t size) {
    int at = find(cache, size);
    if (at < 0)
        return NULL;
    void *slab = cache->at[at].slab;
    cache->bytes -= size;
    cache->warm_bytes -= cache->at[at].warm ? size : 0;
    cache->at[at] = cache->at[--cache->n];
    return slab;
}

static size_t room_of(int64_t budget) {
    int64_t share = budget / 4;
    if (share < (int64_t)WARM_BYTES)
        return WARM_BYTES;
    return share > (int64_t)MOST_BYTES ? MOST_BYTES : (size_t)share;
}

bool tusk_slab_cache_put(tusk_slab_cache *cache, void *slab, size_t size, int64_t budget) {
    bool warm = cache->warm_bytes + size <= WARM_BYTES;
    if (size > LARGEST || cache->n == TUSK_MOST_CACHED || cache->bytes + size > room_of(budget) ||
        (!warm && madvise(slab, size, MADV_FREE)))
        return false;
    int at = cache->n++;
    cache->at[at].slab = slab;
    cache->at[at].size = size;
    cache->at[at].warm = warm;
    cache->bytes += size;
    cache->warm_bytes += warm ? size : 0;
    return true;
}

void tusk_slab_cache_empty(tusk_slab_cache *cache) {
    for (int i = 0; i < cache->n; i++)
        munmap(cache->at[i].slab, cache->at[i].size);
    cache->n = 0;
    cache->bytes = cache->warm_bytes = 0;
}
