#include "remarks.h"

#include <stdlib.h>
#include <string.h>

static tusk_remark *remark_of(tusk_remarks *r, int64_t column, const char *name) {
    int32_t low = 0, high = r->n;
    if (r->n && r->list[r->n - 1].column < column)
        low = r->n;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (r->list[middle].column < column)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < r->n && r->list[low].column == column)
        return r->list + low;
    if (r->n == r->room) {
        int32_t room = r->room ? 2 * r->room : 2;
        tusk_remark *more = realloc(r->list, (size_t)room * sizeof *more);
        if (!more)
            return NULL;
        r->list = more;
        r->room = room;
    }
    memmove(r->list + low + 1, r->list + low, (size_t)(r->n - low) * sizeof *r->list);
    r->n++;
    r->list[low] = (tusk_remark){.column = column, .name = name};
    return r->list + low;
}

void tusk_remark_add(tusk_remarks *r, const tusk_remark *one) {
    tusk_remark *known = remark_of(r, one->column, one->name);
    if (!known)
        return;
    known->gaps += one->gaps;
    known->rounded |= one->rounded;
}

void tusk_remark_gap(tusk_remarks *r, int64_t column, const char *name) {
    tusk_remark_add(r, &(tusk_remark){.column = column, .gaps = 1, .name = name});
}

void tusk_remark_rounded(tusk_remarks *r, int64_t column, const char *name) {
    tusk_remark_add(r, &(tusk_remark){.column = column, .rounded = 1, .name = name});
}

void tusk_remarks_splice(tusk_remarks *target, const tusk_remarks *source) {
    for (int32_t i = 0; i < source->n; i++)
        tusk_remark_add(target, source->list + i);
}

void tusk_remarks_free(tusk_remarks *r) {
    free(r->list);
    *r = (tusk_remarks){0};
}
