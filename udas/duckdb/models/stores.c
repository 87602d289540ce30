#include "model_column.h"

static const char *readable(const tusk_stores *stores, const char *reference, size_t length,
                            sealed_error *e) {
    (void)reference;
    (void)length;
    char sentence[FILES_SENTENCE];
    if (!stores->root || stores_readable(stores->asker, stores->root, sentence))
        return stores->root;
    sealed_refuse(e, "42501", "%s", sentence);
    return NULL;
}

tusk_stores stores_of(database *d) {
    tusk_memory_use use;
    tusk_memory_used(d->memory, &use);
    int64_t memory = use.budget / 4 < SEALED_MEMORY ? use.budget / 4 : SEALED_MEMORY;
    return (tusk_stores){.cache = d->models,
                         .root = store_root(d),
                         .memory = memory,
                         .readable = readable,
                         .asker = d};
}
