/* Models that are laid out to score rows by name, under AddressSanitizer: payloads in memory of
 * exactly their size, some of them changed at random and signed anew.
 *
 * fuzz_planned SEED COUNT PAYLOAD... prints how many payloads were laid out, and how many lists of
 * probabilities. The payloads are of
 * linear models of the columns a (a number), c (text) and k (a number as a category). Those that
 * were not changed have to give the margins of rows that are scored without a layout. A margin of
 * many rows that is no number leaves the row to be scored alone.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kvstore/mapped/crc32c.h"
#include "scalars/planned/plan.h"

#define ROWS 96
#define MOST_PAYLOADS 24
#define KEPT 40 /* payloads of one set of plans */

static uint64_t state;
static uint64_t draw(uint64_t below) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % below;
}

static const char *const WORDS[] = {
    "", "x", "y", "zz", "new", "a level of many bytes 1", "a level of many bytes 2"};
static double a[ROWS], k[ROWS];
static tusk_text c[ROWS];
static uint64_t gaps[(ROWS + 63) / 64];

static void make_rows(tusk_given_column *column, bool with_gaps) {
    for (int i = 0; i < ROWS; i++) {
        const char *word = WORDS[draw(sizeof WORDS / sizeof *WORDS)];
        a[i] = (double)draw(1000) / 100;
        k[i] = (double)draw(9);
        c[i] = (tusk_text){word, strlen(word)};
    }
    for (size_t w = 0; w < sizeof gaps / sizeof *gaps; w++)
        gaps[w] = draw(UINT32_MAX) | draw(UINT32_MAX) << 32;
    column[0] = (tusk_given_column){.name = "k", .numbers = k};
    column[1] = (tusk_given_column){.name = "A", .numbers = a};
    column[2] = (tusk_given_column){.name = "c", .texts = c, .validity = with_gaps ? gaps : NULL};
}

/* Some words of a payload are others, behind its head. */
static void forge(char *payload, size_t n) {
    for (uint64_t times = 1 + draw(4); times--;) {
        uint32_t word[] = {(uint32_t)draw(UINT32_MAX), (uint32_t)draw(300), UINT32_MAX, 0};
        memcpy(payload + 24 + 4 * draw((n - 28) / 4), word + draw(4), 4);
    }
    uint32_t crc = tusk_crc32c(tusk_crc32c(0, payload, 12), payload + 16, n - 16);
    memcpy(payload + 12, &crc, sizeof crc);
}

/* The margin of a row without a layout; NaN for a refused one or a NULL. */
static double by_itself(tusk_named_rows *rows, const tusk_scorer *s, uint64_t row) {
    char sentence[TUSK_SENTENCE];
    tusk_sparse_row features;
    bool null;
    double margin;
    tusk_scorer own = *s;
    return tusk_named_match(rows, s, sentence) &&
                   tusk_named_row(rows, s, row, &features, &null, sentence) && !null &&
                   tusk_sparse_margin(&own, &features, true, &margin, sentence)
               ? margin
               : NAN;
}

static bool alike(double one, double other) {
    return isnan(one) ? isnan(other) : fabs(one - other) <= 1e-9 * (1 + fabs(one));
}

/* Scores all rows, at once and one by one. */
static bool score(tusk_plan *plan, tusk_named_rows *rows, bool forged) {
    char sentence[TUSK_SENTENCE];
    double many[ROWS], margin;
    bool all = tusk_plan_margins(plan, rows, 0, ROWS, many);
    for (int i = 0; i < ROWS; i++) {
        bool null;
        tusk_plan_expect_layout(plan);
        tusk_plan_expect(plan, rows, (uint64_t)i);
        if (!tusk_plan_margin(plan, rows, (uint64_t)i, &margin, &null, sentence) || null)
            margin = NAN;
        double expected = forged ? margin : by_itself(rows, tusk_plan_scorer(plan), (uint64_t)i);
        if (!alike(expected, margin) || (all && !isnan(many[i]) && !alike(margin, many[i]))) {
            fprintf(stderr, "row %d: %g, %g at once, expected %g\n", i, margin, all ? many[i] : 0,
                    expected);
            return false;
        }
    }
    return true;
}

/* The list of a row without layouts; false for a refused one or a NULL. */
static bool list_by_itself(tusk_named_rows *rows, const tusk_scorer *s, uint64_t row,
                           double *out) {
    char sentence[TUSK_SENTENCE];
    tusk_sparse_row features;
    bool null;
    tusk_scorer own = *s;
    return tusk_named_match(rows, s, sentence) &&
           tusk_named_row(rows, s, row, &features, &null, sentence) && !null &&
           tusk_list(&own, &features, NULL, true, 0, out, sentence);
}

/* Writes the lists of all rows; counts those for which the columns were not matched again. */
static bool list_all(tusk_plan *plan, tusk_named_rows *rows, bool forged, int *laid_out) {
    char sentence[TUSK_SENTENCE];
    const tusk_scorer *s = tusk_plan_scorer(plan);
    double *list = calloc(2 * s->list_size + 1, sizeof *list), *expected = list + s->list_size;
    bool same = true;
    for (int i = 0; same && i < ROWS; i++) {
        bool null;
        tusk_plan_expect(plan, rows, (uint64_t)i);
        rows->n_matched = 0;
        bool given = tusk_plan_list(plan, rows, (uint64_t)i, list, &null, sentence) && !null;
        *laid_out += i && !forged && !rows->n_matched;
        if (forged)
            continue;
        same = given == list_by_itself(rows, s, (uint64_t)i, expected);
        for (uint64_t k = 0; same && given && k < s->list_size; k++)
            same = alike(expected[k], list[k]);
        if (!same)
            fprintf(stderr, "row %d has another list\n", i);
    }
    free(list);
    return same;
}

static char *read_file(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    char *bytes = malloc(1 << 20);
    *n = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    return bytes;
}

static char *copy_of(const char *payload, size_t n, bool forged) {
    char *bytes = malloc(n);
    memcpy(bytes, payload, n);
    if (forged)
        forge(bytes, n);
    return bytes;
}

int main(int argc, char **given) {
    state = strtoull(given[1], NULL, 10) * 2 + 1;
    char *payload[MOST_PAYLOADS];
    size_t size[MOST_PAYLOADS];
    int n = argc - 3;
    for (int i = 0; i < n; i++)
        payload[i] = read_file(given[i + 3], size + i);
    tusk_plans *plans = NULL;
    tusk_given_column column[3];
    tusk_named_rows rows = {.column = column, .n_columns = 3, .schema = column, .n = ROWS};
    int made = 0, laid_out = 0;
    for (long t = 0, count = atol(given[2]); t < count; t++) {
        int which = (int)draw((uint64_t)n);
        bool forged = draw(4);
        char *bytes = copy_of(payload[which], size[which], forged);
        if (t % KEPT == 0) {
            tusk_plans_free(plans);
            plans = tusk_plans_new();
        }
        make_rows(column, draw(2));
        tusk_plans_begin(plans, &rows);
        tusk_text text = {bytes, size[which]};
        tusk_stores none = {0};
        tusk_plans_expect(plans, text, TUSK_DECISION);
        tusk_plan *plan = tusk_plan_of(plans, text, &none, TUSK_DECISION, ROWS);
        tusk_plan *lists = tusk_plan_of(plans, text, &none, TUSK_PREDICT_PROBAS, ROWS);
        free(bytes); /* a plan has a copy */
        if (plan && !score(plan, &rows, forged))
            return 1;
        if (lists && !list_all(lists, &rows, forged, &laid_out))
            return 1;
        made += plan != NULL;
    }
    tusk_plans_free(plans);
    tusk_named_free(&rows);
    for (int i = 0; i < n; i++)
        free(payload[i]);
    printf("%d %d\n", made, laid_out);
    return 0;
}
