#include "heap.h"

#include <stdlib.h>

static void *grow(void *memory, size_t bytes, void *context) {
    (void)context;
    return realloc(memory, bytes);
}

const tusk_grow tusk_heap = {grow, NULL};

void tusk_scored_free(tusk_scored *s) {
    for (int l = 0; l < 2; l++) {
        free(s->lists[l].keys);
        free(s->lists[l].weights);
    }
    *s = (tusk_scored){0};
}

void tusk_classes_free(tusk_classes *s) {
    void *owned[] = {s->bytes, s->names, s->pairs, s->by_name.slots, s->by_pair.slots};
    for (size_t k = 0; k < sizeof owned / sizeof *owned; k++)
        free(owned[k]);
    *s = (tusk_classes){0};
}
