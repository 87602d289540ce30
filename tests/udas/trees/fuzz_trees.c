/* Forged trees under AddressSanitizer: coefficients, and their compact form, in memory of exactly
 * their size, some of them changed at random, and predicted from if the check lets them pass.
 *
 * fuzz_trees FILE OUTPUTS SEED COUNT: the file has a model's coefficients as doubles. Prints how
 * many of either form gave a prediction.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scalars/models/margins.h"
#include "scalars/trees/packed.h"

/* What trees.c needs of other files. */
bool tusk_check_pairs(const tusk_sparse_row *row, char *sentence) {
    (void)sentence;
    return row->n_ids == row->n_values;
}
bool tusk_check_ids(const tusk_sparse_row *row, char *sentence) {
    (void)sentence;
    for (uint64_t i = 0; i < row->n_ids; i++)
        if (tusk_id_at(row, i) < 0)
            return false;
    return true;
}

#define MOST_ROWS 300
#define MOST_FEATURES 16

static uint64_t state;
static uint64_t draw(uint64_t below) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % below;
}

static double cell(void) {
    return draw(9) ? (double)draw(40) - 3 : NAN;
}

/* Whether a scorer answers all the ways in which it is asked. */
static bool predicts(tusk_scorer *s, uint64_t d) {
    char sentence[TUSK_SENTENCE];
    uint64_t n = draw(2) ? 1 : MOST_ROWS;
    static double x[MOST_ROWS * MOST_FEATURES], out[MOST_ROWS * 8];
    static float narrow[MOST_ROWS * MOST_FEATURES];
    for (uint64_t i = 0; i < n * d; i++)
        narrow[i] = (float)(x[i] = cell());
    bool f64 = draw(2);
    const void *rows = f64 ? (const void *)x : narrow;
    bool done = s->labels ? tusk_tree_class_margins(s, rows, f64, d, out, sentence)
                          : tusk_tree_margins(s, rows, f64, d, n, out, sentence);
    if (tusk_tree_features(s) > 100000)
        return false; /* it is never that of the rows, and a sparse one is written out */
    int32_t ids[2] = {0, (int32_t)draw(1 << 20)};
    double values[2] = {1, NAN};
    tusk_sparse_row row = {ids, values, 2, 2, false};
    return tusk_tree_sparse_margin(s, &row, true, out, sentence) && done;
}

/* Packs compact trees and scores a row. Ends the program if a walk says otherwise. */
static void pack(const tusk_compact *trees, uint64_t d) {
    bool made_of_doubles = draw(2), f64 = draw(2);
    size_t bytes = tusk_packed_bytes(trees, made_of_doubles);
    if (!bytes || bytes > 1000000 || trees->head.features != d)
        return;
    double x[MOST_FEATURES], sum = 0, walked = 0;
    float narrow[MOST_FEATURES];
    for (uint64_t j = 0; j < d; j++)
        narrow[j] = (float)(x[j] = draw(20) ? (double)draw(160) / 3 - 3 : cell());
    const void *row = f64 ? (const void *)x : narrow;
    tusk_packed *packed = malloc(bytes);
    if (tusk_packed_make(trees, made_of_doubles, packed) &&
        tusk_packed_margin(packed, row, f64, &sum) &&
        tusk_compact_margins(trees, row, f64, d, 1, &walked) &&
        memcmp(&sum, &walked, sizeof sum) && (sum == sum || walked == walked)) {
        fprintf(stderr, "packed trees say %.17g, a walk %.17g\n", sum, walked);
        exit(1);
    }
    free(packed);
}

static tusk_scorer scorer_of(uint64_t outputs) {
    static const double labels[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    tusk_scorer s = {.task = TUSK_BOOSTED, .n_classes = outputs};
    s.labels = outputs > 1 ? labels : NULL;
    return s;
}

/* The same after some of the numbers have changed. */
static bool of_numbers(const double *whole, uint64_t n, uint64_t outputs) {
    static const double WILD[] = {-2, -1, 0,   0.5,   1,      2,        3,
                                  7,  40, 1e6, 1e300, -1e300, INFINITY, NAN};
    uint64_t d = (uint64_t)whole[0], kept = draw(4) ? n : draw(n + 1);
    double *coef = malloc(kept * sizeof *coef + (kept == 0));
    memcpy(coef, whole, kept * sizeof *coef);
    for (uint64_t k = kept ? draw(4) : 0; k; k--)
        coef[draw(draw(4) ? kept : (kept < 12 ? kept : 12))] =
            WILD[draw(sizeof WILD / sizeof *WILD)];
    char sentence[TUSK_SENTENCE];
    tusk_scorer s = scorer_of(outputs);
    s.coef = (const tusk_weight *)coef;
    s.n_coef = kept;
    bool done = tusk_check_trees(s.coef, kept, outputs, sentence) && predicts(&s, d);
    free(coef);
    return done;
}

/* The same of their compact form, whose bytes change. */
static bool of_bytes(const char *whole, uint64_t n, uint64_t d, uint64_t outputs) {
    uint64_t kept = draw(4) ? n : draw(n + 1);
    char *bytes = malloc(kept + (kept == 0));
    memcpy(bytes, whole, kept);
    for (uint64_t k = kept ? draw(4) : 0; k; k--)
        bytes[draw(draw(3) ? kept : (kept < 32 ? kept : 32))] = (char)draw(256);
    tusk_scorer s = scorer_of(outputs);
    bool done = tusk_compact_open(bytes, kept, outputs, &s.trees);
    if (done) {
        uint64_t numbers = tusk_compact_numbers(&s.trees);
        double *written = numbers < 1000000 ? malloc(numbers * sizeof *written + 1) : NULL;
        if (written)
            tusk_compact_write(&s.trees, written);
        free(written);
        s.is_compact = true;
        s.coef = (const tusk_weight *)bytes;
        s.n_coef = kept / 8;
        pack(&s.trees, d);
        done = predicts(&s, d);
    }
    free(bytes);
    return done;
}

int main(int count, char **given) {
    FILE *file = count == 5 ? fopen(given[1], "rb") : NULL;
    static double coef[100000];
    if (!file)
        return 2;
    uint64_t n = fread(coef, sizeof *coef, 100000, file), bytes;
    fclose(file);
    uint64_t outputs = strtoull(given[2], NULL, 10), tries = strtoull(given[4], NULL, 10);
    state = strtoull(given[3], NULL, 10);
    char *compact = tusk_compact_of(coef, n, outputs, &bytes);
    if (!compact || coef[0] > MOST_FEATURES)
        return 3;
    uint64_t numbers = 0, forms = 0;
    for (uint64_t i = 0; i < tries; i++) {
        numbers += of_numbers(coef, n, outputs);
        forms += of_bytes(compact, bytes, (uint64_t)coef[0], outputs);
    }
    free(compact);
    printf("%llu %llu\n", (unsigned long long)numbers, (unsigned long long)forms);
    return 0;
}
