/* Forged nets under AddressSanitizer: coefficients in memory of exactly their size, some of them
 * changed at random, and predicted from if the check lets them pass.
 *
 * fuzz_nets SEED COUNT prints how many passed.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scalars/models/margins.h"
#include "scalars/nets/tables.h"

/* What nets.c needs of other files. */
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
void tusk_to_shares(double *m, uint64_t n) {
    for (uint64_t k = 0; k < n; k++)
        m[k] = exp(m[k]);
}

static uint64_t state;
static uint64_t draw(uint64_t below) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % below;
}

/* A net of 6 features, two categories of which are embedded, or of none. */
static uint64_t valid(double *c, bool embeds, uint64_t outputs) {
    const double layers[] = {6, 2, embeds ? 16 : 0, 3, (double)outputs};
    const double tables[] = {2, 1, 2, 3, 4, 2, 1};
    uint64_t n = 0;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        c[n++] = layers[i];
    for (size_t i = 0; embeds && i < sizeof tables / sizeof *tables; i++)
        c[n++] = tables[i];
    uint64_t inputs = embeds ? 2 + 4 : 6, vectors = embeds ? 2 * 3 + 2 * 1 : 0;
    uint64_t weights = vectors + 3 * (inputs + 1) + outputs * 4;
    for (uint64_t i = 0; i < weights; i++)
        c[n++] = 0.01 * (double)i;
    return n;
}

static void predict(const tusk_weight *coef, uint64_t n, uint64_t outputs) {
    char sentence[TUSK_SENTENCE];
    double labels[4] = {0, 1, 2, 3}, out[9], x[9 * 6];
    tusk_scorer s = {.task = TUSK_NET, .coef = coef, .n_coef = n, .n_classes = outputs};
    s.labels = outputs > 1 ? labels : NULL;
    for (int i = 0; i < 9 * 6; i++)
        x[i] = i % 3;
    uint64_t d = (uint64_t)coef[TUSK_NET_FEATURES];
    tusk_net_margins(&s, x, true, d == 6 ? 6 : 5, 9, out, sentence);
    int32_t ids[3] = {(int32_t)draw(8), (int32_t)draw(1 << 24), 5};
    double values[3] = {1, 2, NAN};
    tusk_sparse_row row = {ids, values, 3, 3, false};
    double shares[4];
    if (d < 1000)
        (outputs > 1 ? tusk_net_sparse_shares : tusk_net_sparse_margin)(&s, &row, true, shares,
                                                                        sentence);
}

int main(int count, char **given) {
    static const double WILD[] = {-1, 0,  0.5, 1,  2,    3,    4,        5,     6,        7,
                                  16, 17, 18,  19, 1024, 1025, 16777216, 1e300, INFINITY, NAN};
    state = count > 1 ? strtoull(given[1], NULL, 10) : 1;
    uint64_t passed = 0, tries = count > 2 ? strtoull(given[2], NULL, 10) : 1000;
    for (uint64_t i = 0; i < tries; i++) {
        double whole[256];
        uint64_t outputs = draw(2) ? 1 : 4, n = valid(whole, draw(4) > 0, outputs);
        for (uint64_t k = draw(4); k; k--)
            whole[draw(draw(4) ? 12 : n)] = WILD[draw(sizeof WILD / sizeof *WILD)];
        n = draw(4) ? n : draw(n + 8);
        double *coef = malloc(n * sizeof *coef + (n == 0));
        memcpy(coef, whole, n * sizeof *coef);
        char sentence[TUSK_SENTENCE];
        if (tusk_check_net((const tusk_weight *)coef, n, outputs, sentence)) {
            passed++;
            predict((const tusk_weight *)coef, n, outputs);
        }
        free(coef);
    }
    printf("%llu\n", (unsigned long long)passed);
    return 0;
}
