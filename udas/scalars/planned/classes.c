#include "classes.h"

#include <stdlib.h>

#include "../models/kinds.h"
#include "../models/margins.h"

struct tusk_class_layouts {
    uint64_t n;
    tusk_layout *of[]; /* by class; a single one for two classes */
};

/* A linear model with the margin of one class. */
static tusk_scorer margin_of_class(const tusk_scorer *s, uint64_t k) {
    tusk_scorer one = *s;
    one.task = TUSK_LINEAR;
    one.labels = NULL;
    one.coef = s->coef + k * s->n_coef + 1;
    one.n_coef = s->n_coef - 1;
    one.intercept = s->coef[k * s->n_coef];
    return one;
}

tusk_class_layouts *tusk_class_layouts_new(tusk_layouts *all, const tusk_scorer *s, bool lists) {
    bool several = lists && !tusk_kind_of(s->task)->check && s->labels;
    if (s->explains || s->has_interval || s->stored || s->null)
        return NULL;
    uint64_t n = several ? s->n_classes : 1;
    tusk_class_layouts *classes = calloc(1, sizeof *classes + n * sizeof *classes->of);
    for (; classes && classes->n < n; classes->n++) {
        tusk_scorer one = several ? margin_of_class(s, classes->n) : *s;
        if (!(classes->of[classes->n] = tusk_layout_new(all, &one))) {
            tusk_class_layouts_free(all, classes);
            return NULL;
        }
    }
    return classes;
}

void tusk_class_layouts_free(tusk_layouts *all, tusk_class_layouts *classes) {
    for (uint64_t k = 0; classes && k < classes->n; k++)
        tusk_layout_free(all, classes->of[k]);
    free(classes);
}

bool tusk_class_layouts_match(tusk_class_layouts *classes, tusk_named_rows *rows,
                              const tusk_scorer *s, char *sentence) {
    return tusk_layout_match(classes->of[0], rows, s, sentence);
}

void tusk_class_layouts_expect(const tusk_class_layouts *classes, const tusk_named_rows *rows,
                               uint64_t row) {
    for (uint64_t k = 0; k < classes->n; k++)
        tusk_layout_expect(classes->of[k], rows, row);
}

const tusk_layout *tusk_class_layouts_first(const tusk_class_layouts *classes) {
    return classes->of[0];
}

bool tusk_class_layouts_margin(const tusk_class_layouts *classes, const tusk_named_rows *rows,
                               uint64_t row, double *margin, bool *null) {
    return tusk_layout_margin(classes->of[0], rows, row, margin, null);
}

bool tusk_class_layouts_list(const tusk_class_layouts *classes, const tusk_named_rows *rows,
                             const tusk_scorer *s, uint64_t row, double *out, bool *null) {
    double margin;
    if (!s->labels || s->cuts) {
        if (!tusk_layout_margin(classes->of[0], rows, row, &margin, null))
            return false;
        if (!*null)
            tusk_shares_of_margin(s, margin, out);
        return true;
    }
    tusk_layout_levels(classes->of[0], rows, row);
    for (uint64_t k = 0; k < classes->n; k++)
        if (!tusk_layout_sum(classes->of[k], rows, row, out + k, null) || *null)
            return *null;
    tusk_to_shares(out, classes->n);
    return true;
}
