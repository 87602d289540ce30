/* Chooses the packed form of trees. */
#include "packed.h"

#include "forms.h"

#define LINE 64
#define MOST_TOUCHED 32768 /* bytes that are prefetched */

struct tusk_packed {
    size_t bytes; /* of all */
    bool masked;
};

static void *form_of(const tusk_packed *p) {
    return (void *)(p + 1);
}

size_t tusk_packed_bytes(const tusk_compact *c, bool f64) {
    const tusk_compact_head *h = &c->head;
    if (h->bases || !h->trees || h->trees > MOST_TREES || !h->splits ||
        h->features > MOST_FEATURES)
        return 0;
    size_t masked = tusk_masked_bytes(c, f64);
    size_t bytes = masked ? masked : tusk_stepped_bytes(c, f64);
    return bytes ? sizeof(tusk_packed) + bytes : 0;
}

bool tusk_packed_make(const tusk_compact *c, bool f64, tusk_packed *to) {
    *to = (tusk_packed){tusk_packed_bytes(c, f64), tusk_masked_bytes(c, f64) > 0};
    return to->masked ? tusk_masked_make(c, f64, form_of(to))
                      : tusk_stepped_make(c, f64, form_of(to));
}

void tusk_packed_touch(const tusk_packed *p) {
    size_t bytes = p->bytes < MOST_TOUCHED ? p->bytes : MOST_TOUCHED;
    for (size_t at = 0; at < bytes; at += LINE)
        __builtin_prefetch((const char *)p + at, 0, 2);
}

bool tusk_packed_margin(const tusk_packed *p, const void *x, bool f64, double *sum) {
    return p->masked ? tusk_masked_margin(form_of(p), x, f64, sum)
                     : tusk_stepped_margin(form_of(p), x, f64, sum);
}
