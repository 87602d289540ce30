#include "curves.h"

#include <math.h>

#include "sum.h"

/* --- numbers --- */

/* Twice the Mann-Whitney statistic: each pair of a positive and a negative row counts 2 if the
 * positive has the higher score, 1 if they tie. It is an integer, so it is exact. */
static uint64_t count_pairs(const tusk_ranks *r) {
    uint64_t twice = 0;
    int64_t below = 0, up_to = 0; /* negatives with a lower score; with a lower or equal one */
    for (int64_t i = 0; i < r->n_positive; i++) {
        while (below < r->n_negative && r->negative[below] < r->positive[i])
            below++;
        if (up_to < below)
            up_to = below;
        while (up_to < r->n_negative && r->negative[up_to] == r->positive[i])
            up_to++;
        twice += (uint64_t)(below + up_to);
    }
    return twice;
}

static double auc_of(const tusk_ranks *r) {
    return (double)count_pairs(r) / (2.0 * (double)r->n_positive * (double)r->n_negative);
}

/* Walks the rows from the highest score down. Ties are taken together. */
typedef struct descent {
    const tusk_ranks *ranks;
    int64_t positives, negatives; /* taken so far */
    double score;                 /* of the rows taken last */
} descent;

static int64_t take_ties(const uint64_t *keys, int64_t n, int64_t taken, uint64_t key) {
    while (taken < n && keys[n - 1 - taken] == key)
        taken++;
    return taken;
}

/* Takes the rows with the next lower score; false if none are left. */
static bool descend(descent *d) {
    const tusk_ranks *r = d->ranks;
    uint64_t key = 0; /* below the key of any number */
    if (d->positives < r->n_positive)
        key = r->positive[r->n_positive - 1 - d->positives];
    if (d->negatives < r->n_negative && r->negative[r->n_negative - 1 - d->negatives] > key)
        key = r->negative[r->n_negative - 1 - d->negatives];
    if (!key)
        return false;
    d->positives = take_ties(r->positive, r->n_positive, d->positives, key);
    d->negatives = take_ties(r->negative, r->n_negative, d->negatives, key);
    d->score = tusk_of_key(key);
    return true;
}

/* The sum of precision times the increase of recall, without interpolation. */
static double average_precision_of(const tusk_ranks *r) {
    tusk_sum sum = {0};
    descent d = {.ranks = r};
    for (int64_t before = 0; descend(&d); before = d.positives) {
        double precision = (double)d.positives / (double)(d.positives + d.negatives);
        tusk_sum_add(&sum, (double)(d.positives - before) * precision);
    }
    return tusk_sum_total(&sum) / (double)r->n_positive;
}

double tusk_ranks_number(const tusk_ranks *r, enum tusk_ranking_kind kind, bool *null) {
    bool auc = kind == TUSK_AUC;
    *null = !r->n_positive || (auc && !r->n_negative);
    if (*null)
        return 0;
    return auc ? auc_of(r) : average_precision_of(r);
}

/* --- roc_curve --- */

#define ROC_POINTS 1000
/* The longest step of a thinned curve, measured as the sum along both axes. The whole curve is
 * 2 long in this measure. Any two successive steps together are longer than STEP, so there are
 * at most 999 steps. The points left out lie in a rectangle whose sides add up to s <= STEP.
 * Half of its area is at most s * s / 8, so the areas differ by at most 2 * STEP / 8 = 0.001. */
#define STEP 0.004

static bool write_point(const tusk_ranks *r, const descent *d, tusk_writer to) {
    const tusk_row row = {tusk_number(d->score),
                          tusk_number((double)d->positives / (double)r->n_positive),
                          tusk_number((double)d->negatives / (double)r->n_negative)};
    return to.write(row, to.context);
}

static double length(const descent *from, const descent *to) {
    const tusk_ranks *r = from->ranks;
    return (double)(to->positives - from->positives) / (double)r->n_positive +
           (double)(to->negatives - from->negatives) / (double)r->n_negative;
}

/* Whether the curve has more than ROC_POINTS points, including the first. */
static bool is_long(const tusk_ranks *r) {
    descent d = {.ranks = r};
    int64_t n = 1;
    while (n <= ROC_POINTS && descend(&d))
        n++;
    return n > ROC_POINTS;
}

/* The first point is above all scores. */
static bool write_roc(const tusk_ranks *r, tusk_writer to) {
    bool thin = is_long(r);
    descent kept = {.ranks = r, .score = INFINITY}, last = kept, d = kept;
    if (!write_point(r, &kept, to))
        return false;
    for (bool more = descend(&d); more;) {
        last = d;
        more = descend(&d);
        if (more && thin && length(&kept, &d) <= STEP)
            continue;
        kept = last;
        if (!write_point(r, &kept, to))
            return false;
    }
    return true;
}

/* --- lift --- */

#define DECILES 10

typedef struct decile {
    int64_t number, n, positives;
} decile;

static bool write_decile(const tusk_ranks *r, const decile *d, int64_t found, tusk_writer to) {
    double rate = (double)d->positives / (double)d->n, all = (double)r->n_positive;
    const tusk_row row = {tusk_whole(d->number),
                          tusk_whole(d->n),
                          tusk_whole(d->positives),
                          tusk_number(rate),
                          tusk_share(rate * (double)(r->n_positive + r->n_negative), all),
                          tusk_share((double)found, all)};
    return to.write(row, to.context);
}

/* Rows that tie share the decile of the first of them, because their order would be arbitrary. */
static bool write_lift(const tusk_ranks *r, tusk_writer to) {
    int64_t rows = r->n_positive + r->n_negative, above = 0, positives_above = 0;
    decile now = {.number = 1};
    descent d = {.ranks = r};
    while (descend(&d)) {
        int64_t number = (int64_t)((__int128)above * DECILES / rows) + 1;
        if (number != now.number) {
            if (!write_decile(r, &now, positives_above, to))
                return false;
            now = (decile){.number = number};
        }
        now.n += d.positives + d.negatives - above;
        now.positives += d.positives - positives_above;
        above = d.positives + d.negatives;
        positives_above = d.positives;
    }
    return write_decile(r, &now, positives_above, to);
}

/* --- calibration --- */

typedef struct bin {
    double lower, upper;
    int64_t positives, negatives; /* up to and including this bin */
    tusk_sum p;
} bin;

/* Adds the scores of a bin, up to its upper end; returns how many have been taken in total. */
static int64_t fill(bin *b, const uint64_t *keys, int64_t n, int64_t taken) {
    for (uint64_t end = tusk_key_of(b->upper); taken < n && keys[taken] <= end; taken++)
        tusk_sum_add(&b->p, tusk_of_key(keys[taken]));
    return taken;
}

static bool write_bin(int64_t number, const bin *b, const bin *before, tusk_writer to) {
    int64_t positives = b->positives - before->positives;
    int64_t n = positives + b->negatives - before->negatives;
    if (!n)
        return true;
    const tusk_row row = {tusk_whole(number),
                          tusk_number(b->lower),
                          tusk_number(b->upper),
                          tusk_number(tusk_sum_total(&b->p) / (double)n),
                          tusk_number((double)positives / (double)n),
                          tusk_whole(n)};
    return to.write(row, to.context);
}

/* Bins of equal width. Each includes its upper end, the first one also 0. Bins without rows are
 * left out. */
static bool write_calibration(const tusk_ranks *r, int64_t bins, tusk_writer to) {
    bin before = {0};
    for (int64_t i = 1; i <= bins; i++) {
        bin b = {.lower = (double)(i - 1) / (double)bins, .upper = (double)i / (double)bins};
        b.positives = fill(&b, r->positive, r->n_positive, before.positives);
        b.negatives = fill(&b, r->negative, r->n_negative, before.negatives);
        if (!write_bin(i, &b, &before, to))
            return false;
        before = b;
    }
    return true;
}

/* --- tables --- */

static const tusk_table ROC = {
    3, {{"threshold", TUSK_NUMBER}, {"tpr", TUSK_NUMBER}, {"fpr", TUSK_NUMBER}}};
static const tusk_table LIFT = {6,
                                {{"decile", TUSK_WHOLE},
                                 {"n", TUSK_WHOLE},
                                 {"positives", TUSK_WHOLE},
                                 {"rate", TUSK_NUMBER},
                                 {"lift", TUSK_NUMBER},
                                 {"cumulative_gain", TUSK_NUMBER}}};
static const tusk_table CALIBRATION = {6,
                                       {{"bin", TUSK_WHOLE},
                                        {"lower", TUSK_NUMBER},
                                        {"upper", TUSK_NUMBER},
                                        {"mean_p", TUSK_NUMBER},
                                        {"rate", TUSK_NUMBER},
                                        {"n", TUSK_WHOLE}}};

const tusk_table *tusk_ranking_table(enum tusk_ranking_kind kind) {
    switch (kind) {
    case TUSK_ROC_CURVE:
        return &ROC;
    case TUSK_LIFT:
        return &LIFT;
    case TUSK_CALIBRATION:
        return &CALIBRATION;
    default:
        return NULL;
    }
}

bool tusk_ranks_known(const tusk_ranks *r, enum tusk_ranking_kind kind) {
    if (kind == TUSK_ROC_CURVE)
        return r->n_positive && r->n_negative;
    return r->n_positive || r->n_negative;
}

bool tusk_ranks_write(const tusk_ranks *r, enum tusk_ranking_kind kind, int64_t bins,
                      tusk_writer to) {
    switch (kind) {
    case TUSK_ROC_CURVE:
        return write_roc(r, to);
    case TUSK_LIFT:
        return write_lift(r, to);
    default:
        return write_calibration(r, bins, to);
    }
}
