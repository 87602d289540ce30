#include "curves.h"

#include <math.h>
#include <stdlib.h>

#include "sum.h"

/* --- numbers --- */

/* Twice the Mann-Whitney statistic: each pair of a positive and a negative row counts 2 if the
 * positive has the higher score, 1 if they tie. It is an integer, so it is exact. */
static uint64_t count_pairs(const tusk_ranks *r) {
    const tusk_side *positive = &r->positive, *negative = &r->negative;
    uint64_t twice = 0;
    int64_t below = 0, up_to = 0; /* negatives with a lower score; with a lower or equal one */
    for (int64_t i = 0; i < positive->n; i++) {
        while (below < negative->n && negative->keys[below] < positive->keys[i])
            below++;
        if (up_to < below)
            up_to = below;
        while (up_to < negative->n && negative->keys[up_to] == positive->keys[i])
            up_to++;
        twice += (uint64_t)(below + up_to);
    }
    return twice;
}

/* Sum of the weights of the c highest rows of a side. */
static double mass_of(const tusk_side *side, int64_t c) {
    return side->top ? side->top[c] : (double)c;
}

static double all_of(const tusk_side *side) {
    return mass_of(side, side->n);
}

/* Walks the rows from the highest score down. Ties are taken together. */
typedef struct descent {
    const tusk_ranks *ranks;
    int64_t positives, negatives; /* taken so far */
    double p, n;                  /* their weights */
    double score;                 /* of the rows taken last */
} descent;

static int64_t take_ties(const tusk_side *side, int64_t taken, uint64_t key) {
    while (taken < side->n && side->keys[side->n - 1 - taken] == key)
        taken++;
    return taken;
}

/* Takes the rows with the next lower score; false if none are left. */
static bool descend(descent *d) {
    const tusk_side *positive = &d->ranks->positive, *negative = &d->ranks->negative;
    uint64_t key = 0; /* below the key of any number */
    if (d->positives < positive->n)
        key = positive->keys[positive->n - 1 - d->positives];
    if (d->negatives < negative->n && negative->keys[negative->n - 1 - d->negatives] > key)
        key = negative->keys[negative->n - 1 - d->negatives];
    if (!key)
        return false;
    d->positives = take_ties(positive, d->positives, key);
    d->negatives = take_ties(negative, d->negatives, key);
    d->p = mass_of(positive, d->positives);
    d->n = mass_of(negative, d->negatives);
    d->score = tusk_of_key(key);
    return true;
}

/* The share of pairs for rows with weights: each pair counts the product of its weights. Shares
 * of weights are multiplied, since products of weights may overflow or underflow. */
static double weigh_pairs(const tusk_ranks *r) {
    tusk_sum sum = {0};
    double positives = all_of(&r->positive), negatives = all_of(&r->negative);
    for (descent d = {.ranks = r}, before = d; descend(&d); before = d)
        tusk_sum_add(&sum, (d.p - before.p) / positives *
                               ((negatives - d.n + (d.n - before.n) / 2) / negatives));
    return tusk_sum_total(&sum);
}

static double auc_of(const tusk_ranks *r) {
    if (r->positive.top)
        return weigh_pairs(r);
    return (double)count_pairs(r) / 2.0 / (all_of(&r->positive) * all_of(&r->negative));
}

/* The sum of precision times the increase of recall, without interpolation. */
static double average_precision_of(const tusk_ranks *r) {
    tusk_sum sum = {0};
    descent d = {.ranks = r};
    for (double before = 0; descend(&d); before = d.p)
        tusk_sum_add(&sum, (d.p - before) * (d.p / (d.p + d.n)));
    return tusk_sum_total(&sum) / all_of(&r->positive);
}

/* The statistic of Kolmogorov and Smirnov: the largest distance between the distribution functions
 * of the two labels' scores, which is that of the ROC curve from the diagonal. */
static double ks_of(const tusk_ranks *r) {
    double positives = all_of(&r->positive), negatives = all_of(&r->negative), largest = 0;
    for (descent d = {.ranks = r}; descend(&d);)
        largest = fmax(largest, fabs(d.p / positives - d.n / negatives));
    return largest;
}

#define STABILITY_BINS 10
#define LEAST_SHARE 1e-4 /* of a bin that one label does not have, whose logarithm is infinite */

#define ROUNDING 1e-9 /* of sums of weights, so that a row of weight 2 is two rows */

/* The bin of the scores taken last: the number of deciles of the lower label's scores below it. */
static int64_t bin_of(const descent *d) {
    const tusk_side *reference = &d->ranks->negative;
    int64_t tenths = (reference->n - d->negatives) * STABILITY_BINS / reference->n;
    if (reference->top)
        tenths = (int64_t)((1 - d->n / all_of(reference)) * STABILITY_BINS + ROUNDING);
    return tenths < STABILITY_BINS ? tenths : STABILITY_BINS - 1;
}

/* The population stability index: the sum over bins of (p - q) log(p / q) for the shares p and q
 * of the two labels, Jeffreys' divergence. A score equal to a decile is in the bin below it. */
static double psi_of(const tusk_ranks *r) {
    double positive[STABILITY_BINS] = {0}, negative[STABILITY_BINS] = {0}, sum = 0;
    for (descent d = {.ranks = r}, before = d; descend(&d); before = d) {
        int64_t bin = bin_of(&d);
        positive[bin] += (d.p - before.p) / all_of(&r->positive);
        negative[bin] += (d.n - before.n) / all_of(&r->negative);
    }
    for (int b = 0; b < STABILITY_BINS; b++) {
        double p = fmax(positive[b], LEAST_SHARE), q = fmax(negative[b], LEAST_SHARE);
        sum += (p - q) * log(p / q);
    }
    return sum;
}

/* --- numbers at k --- */

/* The hits among the k highest scores, and the sum of their precisions. Rows with equal scores
 * share their ranks: each has the precision after the last of them, and if only some are among
 * the k highest, the hits are taken to be spread evenly. */
static double hits_at(const tusk_ranks *r, int64_t k, double *precisions) {
    descent d = {.ranks = r}, before = d;
    double hits = 0;
    *precisions = 0;
    for (int64_t taken = 0; taken < k && descend(&d); before = d) {
        int64_t all = d.positives + d.negatives, ties = all - taken;
        double found = (double)(d.positives - before.positives);
        taken = all < k ? all : k;
        found *= (double)(taken - (all - ties)) / (double)ties;
        hits += found;
        *precisions += found * (hits / (double)taken);
    }
    return hits;
}

static double at_k(const tusk_ranks *r, enum tusk_ranking_kind kind, int64_t k, bool *null) {
    int64_t positives = r->positive.n, rows = positives + r->negative.n;
    double precisions, hits = hits_at(r, k, &precisions);
    *null = kind == TUSK_PRECISION_AT_K ? !rows : !positives;
    if (*null)
        return 0;
    if (kind == TUSK_PRECISION_AT_K)
        return hits / (double)(k == TUSK_ALL_ROWS ? rows : k);
    return kind == TUSK_RECALL_AT_K ? hits / (double)positives
                                    : precisions / (double)(positives < k ? positives : k);
}

static int compare_gains(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The sum of discounts 1 / log2(1 + rank) of ranks up to k. */
static double discounts(int64_t from, int64_t to, int64_t k) {
    double sum = 0;
    for (int64_t rank = from; rank < to && rank < k; rank++)
        sum += 1 / log2((double)rank + 2);
    return sum;
}

/* The discounted gains of the k highest scores over those of the best order (Jarvelin and
 * Kekalainen, Cumulated gain-based evaluation of IR techniques, TOIS 2002). Rows with equal scores
 * share the discounts of their ranks, as in scikit-learn. */
static double ndcg_of(const tusk_ranks *r, int64_t k, bool *null) {
    const tusk_side *side = &r->positive;
    tusk_sum found = {0}, best = {0};
    for (int64_t taken = 0; taken < side->n && taken < k;) {
        int64_t end = take_ties(side, taken, side->keys[side->n - 1 - taken]);
        double gain = (side->top[end] - side->top[taken]) / (double)(end - taken);
        tusk_sum_add(&found, gain * discounts(taken, end, k));
        taken = end;
    }
    /* The ranks are in the caller's work memory, and this is the last use of them. */
    double *gains = (double *)side->weights;
    if (side->n)
        qsort(gains, (size_t)side->n, sizeof *gains, compare_gains);
    for (int64_t rank = 0; rank < side->n && rank < k; rank++)
        tusk_sum_add(&best, gains[side->n - 1 - rank] * discounts(rank, rank + 1, k));
    *null = !(tusk_sum_total(&best) > 0);
    return *null ? 0 : tusk_sum_total(&found) / tusk_sum_total(&best);
}

double tusk_ranks_number(const tusk_ranks *r, enum tusk_ranking_kind kind, int64_t k, bool *null) {
    if (kind == TUSK_NDCG)
        return ndcg_of(r, k, null);
    if (tusk_ranking_of(kind)->at_k)
        return at_k(r, kind, k, null);
    *null = !r->positive.n || (kind != TUSK_AVERAGE_PRECISION && !r->negative.n);
    if (*null)
        return 0;
    switch (kind) {
    case TUSK_AUC:
        return auc_of(r);
    case TUSK_KS:
        return ks_of(r);
    case TUSK_PSI:
        return psi_of(r);
    default:
        return average_precision_of(r);
    }
}

/* --- roc_curve and precision_recall_curve --- */

#define ROC_POINTS 1000
/* The longest step of a thinned curve, measured as the sum along both axes. The whole curve is
 * 2 long in this measure. Any two successive steps together are longer than STEP, so there are
 * at most 999 steps. The points left out lie in a rectangle whose sides add up to s <= STEP.
 * Half of its area is at most s * s / 8, so the areas differ by at most 2 * STEP / 8 = 0.001. */
#define STEP 0.004

static double share(double part, double all) {
    return all > 0 ? part / all : 0;
}

/* Writes a point of roc_curve, or of precision_recall_curve, where the precision is 1 before
 * the first positive row. */
static bool write_point(const descent *d, bool precision, tusk_writer to) {
    double recall = share(d->p, all_of(&d->ranks->positive));
    double right = d->p + d->n > 0 ? d->p / (d->p + d->n) : 1;
    double wrong = share(d->n, all_of(&d->ranks->negative));
    const tusk_row roc = {tusk_number(d->score), tusk_number(recall), tusk_number(wrong)};
    const tusk_row found = {tusk_number(d->score), tusk_number(right), tusk_number(recall)};
    return to.write(precision ? found : roc, to.context);
}

static double length(const descent *from, const descent *to) {
    const tusk_ranks *r = from->ranks;
    return share(to->p - from->p, all_of(&r->positive)) +
           share(to->n - from->n, all_of(&r->negative));
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
static bool write_curve(const tusk_ranks *r, bool precision, tusk_writer to) {
    bool thin = is_long(r);
    descent kept = {.ranks = r, .score = INFINITY}, last = kept, d = kept;
    if (!write_point(&kept, precision, to))
        return false;
    for (bool more = descend(&d); more;) {
        last = d;
        more = descend(&d);
        if (more && thin && length(&kept, &d) <= STEP)
            continue;
        kept = last;
        if (!write_point(&kept, precision, to))
            return false;
    }
    return true;
}

/* --- lift --- */

#define DECILES 10

typedef struct decile {
    int64_t number, n, positives;
    double mass, p; /* their weights */
} decile;

static bool write_decile(const tusk_ranks *r, const decile *d, double found, tusk_writer to) {
    double rate = share(d->p, d->mass), all = all_of(&r->positive);
    const tusk_row row = {tusk_whole(d->number),
                          tusk_whole(d->n),
                          tusk_whole(d->positives),
                          tusk_number(rate),
                          tusk_share(rate * (all + all_of(&r->negative)), all),
                          tusk_share(found, all)};
    return to.write(row, to.context);
}

/* The decile of the next row. */
static int64_t decile_after(const descent *d) {
    const tusk_ranks *r = d->ranks;
    if (!r->positive.top)
        return (int64_t)((__int128)(d->positives + d->negatives) * DECILES /
                         (r->positive.n + r->negative.n)) +
               1;
    double above = (d->p + d->n) / (all_of(&r->positive) + all_of(&r->negative));
    return above * DECILES < DECILES - 1 ? (int64_t)(above * DECILES) + 1 : DECILES;
}

/* Tied rows share the decile of the first of them, because their order would be arbitrary. */
static bool write_lift(const tusk_ranks *r, tusk_writer to) {
    decile now = {.number = 1};
    descent d = {.ranks = r}, above = d;
    for (; descend(&d); above = d) {
        int64_t number = decile_after(&above);
        if (number != now.number) {
            if (!write_decile(r, &now, above.p, to))
                return false;
            now = (decile){.number = number};
        }
        now.n += d.positives + d.negatives - above.positives - above.negatives;
        now.positives += d.positives - above.positives;
        now.mass += d.p + d.n - above.p - above.n;
        now.p += d.p - above.p;
    }
    return write_decile(r, &now, above.p, to);
}

/* --- calibration --- */

typedef struct bin {
    double lower, upper;
    int64_t positives, negatives; /* up to and including this bin */
    tusk_sum p;                   /* of the scores, each times its weight */
} bin;

/* Adds the scores of a bin, up to its upper end; returns how many have been taken in total. */
static int64_t fill(bin *b, const tusk_side *side, int64_t taken) {
    for (uint64_t end = tusk_key_of(b->upper); taken < side->n && side->keys[taken] <= end;
         taken++)
        tusk_sum_add(&b->p,
                     tusk_of_key(side->keys[taken]) * (side->weights ? side->weights[taken] : 1));
    return taken;
}

/* Sum of the weights of the rows in a range, in ascending order. */
static double mass_between(const tusk_side *side, int64_t from, int64_t to) {
    return mass_of(side, side->n - from) - mass_of(side, side->n - to);
}

static bool write_bin(const tusk_ranks *r, int64_t number, const bin *b, const bin *before,
                      tusk_writer to) {
    int64_t n = b->positives - before->positives + b->negatives - before->negatives;
    if (!n)
        return true;
    double p = mass_between(&r->positive, before->positives, b->positives);
    double mass = p + mass_between(&r->negative, before->negatives, b->negatives);
    const tusk_row row = {tusk_whole(number),    tusk_number(b->lower),
                          tusk_number(b->upper), tusk_share(tusk_sum_total(&b->p), mass),
                          tusk_share(p, mass),   tusk_whole(n)};
    return to.write(row, to.context);
}

/* Bins of equal width. Each includes its upper end, the first one also 0. Bins without rows are
 * left out. */
static bool write_calibration(const tusk_ranks *r, int64_t bins, tusk_writer to) {
    bin before = {0};
    for (int64_t i = 1; i <= bins; i++) {
        bin b = {.lower = (double)(i - 1) / (double)bins, .upper = (double)i / (double)bins};
        b.positives = fill(&b, &r->positive, before.positives);
        b.negatives = fill(&b, &r->negative, before.negatives);
        if (!write_bin(r, i, &b, &before, to))
            return false;
        before = b;
    }
    return true;
}

/* --- tables --- */

static const tusk_table ROC = {
    3, {{"threshold", TUSK_NUMBER_CELL}, {"tpr", TUSK_NUMBER_CELL}, {"fpr", TUSK_NUMBER_CELL}}};
static const tusk_table PRECISION_RECALL = {3,
                                            {{"threshold", TUSK_NUMBER_CELL},
                                             {"precision", TUSK_NUMBER_CELL},
                                             {"recall", TUSK_NUMBER_CELL}}};
static const tusk_table LIFT = {6,
                                {{"decile", TUSK_WHOLE_CELL},
                                 {"n", TUSK_WHOLE_CELL},
                                 {"positives", TUSK_WHOLE_CELL},
                                 {"rate", TUSK_NUMBER_CELL},
                                 {"lift", TUSK_NUMBER_CELL},
                                 {"cumulative_gain", TUSK_NUMBER_CELL}}};
static const tusk_table CALIBRATION = {6,
                                       {{"bin", TUSK_WHOLE_CELL},
                                        {"lower", TUSK_NUMBER_CELL},
                                        {"upper", TUSK_NUMBER_CELL},
                                        {"mean_p", TUSK_NUMBER_CELL},
                                        {"rate", TUSK_NUMBER_CELL},
                                        {"n", TUSK_WHOLE_CELL}}};

const tusk_table *tusk_ranking_table(enum tusk_ranking_kind kind) {
    switch (kind) {
    case TUSK_ROC_CURVE:
        return &ROC;
    case TUSK_PRECISION_RECALL:
        return &PRECISION_RECALL;
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
        return r->positive.n && r->negative.n;
    if (kind == TUSK_PRECISION_RECALL)
        return r->positive.n;
    return r->positive.n || r->negative.n;
}

bool tusk_ranks_write(const tusk_ranks *r, enum tusk_ranking_kind kind, int64_t bins,
                      tusk_writer to) {
    switch (kind) {
    case TUSK_ROC_CURVE:
    case TUSK_PRECISION_RECALL:
        return write_curve(r, kind == TUSK_PRECISION_RECALL, to);
    case TUSK_LIFT:
        return write_lift(r, to);
    default:
        return write_calibration(r, bins, to);
    }
}
