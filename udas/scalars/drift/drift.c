/* Counts rows in the bins and levels of a histogram, and compares both. */
#include "drift.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../rowblock/derived.h"
#include "../explaining/effects.h"
#include "../metrics/metric.h"
#include "../models/quoted.h"
#include "../named/preparation.h"

#define DECILES 10
#define LEAST_SHARE 1e-4 /* of a bin that one side does not have, whose logarithm is infinite */
#define ROUNDING 1e-9    /* of sums of weights */
#define MOST_NAMED 10    /* new levels, and missing ones */
#define NAME_BYTES 63

enum form { BARE, NUMBER, LEVELS }; /* BARE: only NULLs are counted */

typedef struct new_level {
    uint8_t length;
    char text[NAME_BYTES];
} new_level;

/* One feature. Its numbers begin at `numbers` among those of all: edges and the weight of the
 * rows at each of them, both n; n + 1 counts; then now at each edge, and counts now. Those of a
 * category are n + 1 counts, of the levels and of all others, and the same now. */
typedef struct feature {
    uint64_t name, name_length; /* in the text */
    uint64_t numbers, n;
    uint64_t ends;        /* of its levels in the text, index of the first */
    uint64_t text;        /* where the first one begins */
    uint32_t form, place; /* place: of its column in the row before */
    double nulls_before;  /* a share */
    double nulls, weight; /* now */
    uint32_t n_new;
    new_level fresh[MOST_NAMED]; /* the first by name, in order */
} feature;

struct tusk_drift {
    uint64_t size;
    uint64_t n_features, n_numbers, n_ends, n_text;
    uint64_t n_json;   /* the histogram, which follows the text */
    bool named, skips; /* skips: the training left out rows with a NULL */
};

static bool refuse(char *sentence, const char *text) {
    snprintf(sentence, TUSK_SENTENCE, "%s", text);
    return false;
}

static feature *features_of(const tusk_drift *d) {
    return (feature *)(d + 1);
}
static double *numbers_of(const tusk_drift *d) {
    return (double *)(features_of(d) + d->n_features);
}
static uint64_t *ends_of(const tusk_drift *d) {
    return (uint64_t *)(numbers_of(d) + d->n_numbers);
}
static char *text_of(const tusk_drift *d) {
    return (char *)(ends_of(d) + d->n_ends);
}
static uint64_t expected_size(const tusk_drift *d) {
    return sizeof *d + d->n_features * sizeof(feature) + d->n_numbers * sizeof(double) +
           d->n_ends * sizeof(uint64_t) + d->n_text + d->n_json;
}

static uint64_t counts_of(const feature *f) {
    return f->form == NUMBER ? f->n + 1 : f->form == LEVELS ? f->n + 1 : 0;
}
static uint64_t ties_of(const feature *f) {
    return f->form == NUMBER ? f->n : 0;
}

/* The numbers of a feature. */
typedef struct bins {
    const double *edges;
    double *ties, *counts;         /* of the training */
    double *ties_now, *counts_now; /* of the rows */
    uint64_t n;                    /* counts */
} bins;

static bins bins_of(const tusk_drift *d, const feature *f) {
    double *at = numbers_of(d) + f->numbers;
    uint64_t ties = ties_of(f), n = counts_of(f);
    bins b = {.edges = at, .n = n};
    b.ties = at + ties;
    b.counts = b.ties + ties;
    b.ties_now = b.counts + n;
    b.counts_now = b.ties_now + ties;
    return b;
}

/* --- the JSON --- */

typedef struct reader {
    json_reader json;
    tusk_bytes features, numbers, ends, text;
    double rows;
    bool named, skips;
} reader;

static uint64_t read_numbers(json_reader *r, tusk_bytes *out) {
    uint64_t n = 0;
    json_need(r, '[');
    if (json_take(r, ']'))
        return 0;
    do {
        double x = json_number(r);
        r->failed |= !tusk_add(out, &x, sizeof x);
        n++;
    } while (!r->failed && json_take(r, ','));
    json_need(r, ']');
    return n;
}

static uint64_t read_levels(reader *whole) {
    json_reader *r = &whole->json;
    uint64_t n = 0;
    json_need(r, '[');
    if (json_take(r, ']'))
        return 0;
    do {
        json_string(r, &whole->text);
        uint64_t end = whole->text.n;
        r->failed |= !tusk_add(&whole->ends, &end, sizeof end);
        n++;
    } while (!r->failed && json_take(r, ','));
    json_need(r, ']');
    return n;
}

/* The lists of a feature while it is read, and the lengths of those that there have to be. */
typedef struct lists {
    tusk_bytes edges, ties, counts;
    uint64_t n_edges, n_ties, n_counts, n_levels;
} lists;

static void read_member(reader *whole, feature *f, lists *l) {
    json_reader *r = &whole->json;
    char key[32];
    json_word(r, key);
    json_need(r, ':');
    if (r->failed)
        return;
    if (strcmp(key, "name") == 0) {
        f->name = whole->text.n;
        json_string(r, &whole->text);
        f->name_length = whole->text.n - f->name;
    } else if (strcmp(key, "nulls") == 0) {
        f->nulls_before = json_number(r);
    } else if (strcmp(key, "edges") == 0) {
        f->form = NUMBER;
        l->n_edges += read_numbers(r, &l->edges);
    } else if (strcmp(key, "ties") == 0) {
        l->n_ties += read_numbers(r, &l->ties);
    } else if (strcmp(key, "counts") == 0) {
        l->n_counts += read_numbers(r, &l->counts);
    } else if (strcmp(key, "levels") == 0) {
        f->form = LEVELS;
        f->ends = whole->ends.n / sizeof(uint64_t);
        f->text = whole->text.n;
        l->n_levels += read_levels(whole);
    } else {
        r->failed = true;
    }
}

static bool fit(const feature *f, const lists *l) {
    if (f->form == BARE)
        return !l->n_edges && !l->n_ties && !l->n_counts;
    if (f->form == NUMBER)
        return !l->n_levels && l->n_ties == l->n_edges && l->n_counts == l->n_edges + 1;
    return !l->n_edges && !l->n_ties && l->n_counts == l->n_levels + 1;
}

static bool add_zeros(tusk_bytes *out, uint64_t n) {
    const double zero = 0;
    bool done = true;
    while (done && n--)
        done = tusk_add(out, &zero, sizeof zero);
    return done;
}

static void read_feature(reader *whole) {
    json_reader *r = &whole->json;
    feature f = {.form = BARE};
    lists l = {.n_edges = 0};
    f.numbers = whole->numbers.n / sizeof(double);
    json_need(r, '{');
    do
        read_member(whole, &f, &l);
    while (!r->failed && json_take(r, ','));
    json_need(r, '}');
    f.n = f.form == NUMBER ? l.n_edges : l.n_levels;
    r->failed |= !fit(&f, &l) || !tusk_add(&whole->numbers, l.edges.data, l.edges.n) ||
                 !tusk_add(&whole->numbers, l.ties.data, l.ties.n) ||
                 !tusk_add(&whole->numbers, l.counts.data, l.counts.n) ||
                 !add_zeros(&whole->numbers, l.n_ties + l.n_counts) ||
                 !tusk_add(&whole->features, &f, sizeof f);
    free(l.edges.data);
    free(l.ties.data);
    free(l.counts.data);
}

static void read_features(reader *whole) {
    json_reader *r = &whole->json;
    json_need(r, '[');
    if (json_take(r, ']'))
        return;
    do
        read_feature(whole);
    while (!r->failed && json_take(r, ','));
    json_need(r, ']');
}

static void read_all(reader *whole) {
    json_reader *r = &whole->json;
    bool known = false;
    json_need(r, '{');
    do {
        char key[32];
        json_word(r, key);
        json_need(r, ':');
        if (strcmp(key, "version") == 0)
            known = json_number(r) == TUSK_HISTOGRAM_VERSION;
        else if (strcmp(key, "named") == 0)
            whole->named = json_truth(r);
        else if (strcmp(key, "skips") == 0)
            whole->skips = json_truth(r);
        else if (strcmp(key, "rows") == 0)
            whole->rows = json_number(r);
        else if (strcmp(key, "columns") == 0)
            read_features(whole);
        else
            r->failed = true;
    } while (!r->failed && json_take(r, ','));
    json_need(r, '}');
    r->failed |= !known;
}

static tusk_drift *packed(const reader *r, tusk_text json, tusk_grow room) {
    tusk_drift head = {.n_features = r->features.n / sizeof(feature),
                       .n_numbers = r->numbers.n / sizeof(double),
                       .n_ends = r->ends.n / sizeof(uint64_t),
                       .n_text = r->text.n,
                       .n_json = json.length,
                       .named = r->named,
                       .skips = r->skips};
    head.size = expected_size(&head);
    tusk_drift *d = room.grow(NULL, head.size, room.context);
    if (!d)
        return NULL;
    *d = head;
    const struct {
        void *to;
        const void *from;
        size_t n;
    } pieces[] = {{features_of(d), r->features.data, r->features.n},
                  {numbers_of(d), r->numbers.data, r->numbers.n},
                  {ends_of(d), r->ends.data, r->ends.n},
                  {text_of(d), r->text.data, r->text.n},
                  {text_of(d) + d->n_text, json.data, json.length}};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        if (pieces[i].n)
            memcpy(pieces[i].to, pieces[i].from, pieces[i].n);
    for (uint64_t i = 0; i < d->n_features; i++)
        features_of(d)[i].nulls_before /= r->rows > 0 ? r->rows : 1;
    return d;
}

tusk_drift *tusk_drift_new(tusk_text json, tusk_grow room, char *sentence) {
    reader r = {.json = {.at = json.data, .end = json.data + json.length}};
    tusk_drift *d = NULL;
    read_all(&r);
    if (r.json.failed)
        refuse(sentence, "the histogram of the model is not the JSON that train_model wrote");
    else if (!(d = packed(&r, json, room)))
        refuse(sentence, "out of memory");
    free(r.features.data);
    free(r.numbers.data);
    free(r.ends.data);
    free(r.text.data);
    return d;
}

size_t tusk_drift_size(const tusk_drift *d) {
    return d->size;
}

bool tusk_drift_fit(const void *bytes, size_t size) {
    tusk_drift d;
    if (size < sizeof d)
        return false;
    memcpy(&d, bytes, sizeof d);
    return d.size == size && d.n_features <= size && d.n_numbers <= size && d.n_ends <= size &&
           d.n_text <= size && d.n_json <= size && expected_size(&d) == size;
}

static tusk_text json_of(const tusk_drift *d) {
    return (tusk_text){text_of(d) + d->n_text, d->n_json};
}

bool tusk_drift_of(const tusk_drift *d, tusk_text json, char *sentence) {
    tusk_text own = json_of(d);
    return (own.length == json.length && memcmp(own.data, json.data, json.length) == 0) ||
           refuse(sentence, TUSK_OTHER_EFFECTS);
}

/* --- rows --- */

static int compare_texts(const char *a, uint64_t n, const char *b, uint64_t m) {
    int found = memcmp(a, b, n < m ? n : m);
    return found ? found : (n > m) - (n < m);
}

/* The index of a level, or n. Levels are in the order of their bytes. */
static uint64_t level_of(const tusk_drift *d, const feature *f, tusk_text given) {
    const uint64_t *ends = ends_of(d) + f->ends;
    const char *text = text_of(d);
    uint64_t low = 0, high = f->n;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        uint64_t begin = middle ? ends[middle - 1] : f->text;
        int order = compare_texts(text + begin, ends[middle] - begin, given.data, given.length);
        if (!order)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return f->n;
}

/* Notes a level that the training did not have, if it is among the first by name. */
static void note_new(feature *f, const char *text, uint64_t length) {
    new_level one = {.length = (uint8_t)tusk_quoted(text, length, NAME_BYTES)};
    memcpy(one.text, text, one.length);
    uint32_t at = f->n_new;
    for (; at; at--) {
        const new_level *before = f->fresh + at - 1;
        int order = compare_texts(before->text, before->length, one.text, one.length);
        if (!order)
            return;
        if (order < 0)
            break;
    }
    if (at == MOST_NAMED)
        return;
    uint32_t end = f->n_new < MOST_NAMED ? f->n_new++ : MOST_NAMED - 1;
    memmove(f->fresh + at + 1, f->fresh + at, (end - at) * sizeof one);
    f->fresh[at] = one;
}

static void add_level(const tusk_drift *d, feature *f, tusk_text text, double weight) {
    const bins b = bins_of(d, f);
    uint64_t level = level_of(d, f, text);
    b.counts_now[level] += weight;
    if (level == f->n && b.counts[level] == 0)
        note_new(f, text.data, text.length);
}

static void add_number(const tusk_drift *d, feature *f, double x, double weight) {
    const bins b = bins_of(d, f);
    uint64_t low = 0, high = f->n;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (b.edges[middle] < x)
            low = middle + 1;
        else
            high = middle;
    }
    b.counts_now[low] += weight;
    if (low < f->n && b.edges[low] == x)
        b.ties_now[low] += weight;
}

/* The value of a feature in a row. */
typedef struct value {
    bool null, is_text;
    tusk_text text;
    double number;
} value;

static void add_value(const tusk_drift *d, feature *f, const value *v, double weight) {
    char digits[TUSK_NUMBER_TEXT];
    if (f->form == NUMBER)
        add_number(d, f, v->number, weight);
    else if (f->form == LEVELS && v->is_text)
        add_level(d, f, v->text, weight);
    else if (f->form == LEVELS)
        add_level(d, f, (tusk_text){digits, tusk_number_text(v->number + 0.0, digits)}, weight);
}

static tusk_text name_of(const tusk_drift *d, const feature *f) {
    return (tusk_text){text_of(d) + f->name, f->name_length};
}

static bool refuse_column(const tusk_drift *d, const feature *f, const char *what,
                          char *sentence) {
    tusk_text name = name_of(d, f);
    snprintf(sentence, TUSK_SENTENCE, "column '%.*s' %s", tusk_quoted(name.data, name.length, 100),
             name.data, what);
    return false;
}

/* Whether the column of the row before is that of a feature again. */
static bool is_column(const tusk_named_rows *rows, uint32_t place, tusk_text name) {
    return place < rows->n_columns && strlen(rows->column[place].name) == name.length &&
           memcmp(rows->column[place].name, name.data, name.length) == 0;
}

static bool read_named(const tusk_drift *d, feature *f, const tusk_drift_row *row, value *v,
                       char *sentence) {
    tusk_text name = name_of(d, f);
    if (!is_column(row->named, f->place, name) &&
        !tusk_named_column(row->named, name, &f->place, sentence))
        return false;
    const tusk_given_column *c = row->named->column + f->place;
    if (!c->texts && !c->numbers)
        return refuse_column(d, f,
                             "is of a type that cannot be a feature, expected a number, a date, a "
                             "timestamp, text, an enum, boolean or uuid",
                             sentence);
    if (c->texts && f->form == NUMBER)
        return refuse_column(d, f, "is text, and the model was trained on numbers", sentence);
    *v = (value){.null = !tusk_given_valid(c, row->at), .is_text = c->texts};
    if (!v->null && c->texts) {
        v->text = c->texts[row->at];
    } else if (!v->null) {
        v->number = c->numbers[row->at];
        v->null = isnan(v->number);
    }
    return true;
}

static void read_item(const tusk_drift_row *row, uint64_t k, value *v) {
    uint64_t at = row->first + k;
    bool valid = !row->validity || (row->validity[at >> 6] >> (at & 63) & 1);
    double x = row->f64 ? ((const double *)row->x)[at] : ((const float *)row->x)[at];
    *v = (value){.null = !valid || isnan(x), .number = x};
}

static bool read_value(const tusk_drift *d, uint64_t k, const tusk_drift_row *row, value *v,
                       char *sentence) {
    if (row->named)
        return read_named(d, features_of(d) + k, row, v, sentence);
    read_item(row, k, v);
    return true;
}

/* Whether a row counts in the distributions: the training left out those with a NULL, if so. */
static bool read_whole(const tusk_drift *d, const tusk_drift_row *row, bool *whole,
                       char *sentence) {
    value v = {.null = false};
    for (uint64_t k = 0; k < d->n_features && d->skips && !v.null; k++)
        if (!read_value(d, k, row, &v, sentence))
            return false;
    *whole = !v.null;
    return true;
}

bool tusk_drift_add(tusk_drift *d, const tusk_drift_row *row, char *sentence) {
    bool whole;
    if (!tusk_good_weight(row->weight, sentence))
        return false;
    if (row->weight == 0)
        return true;
    if (!row->named == d->named)
        return refuse(sentence, d->named ? "the model was trained on rows with names, expected "
                                           "features such as {'a': a, 'b': b}"
                                         : "the model was trained on lists of numbers, expected "
                                           "features such as [a, b]");
    if (!row->named && row->n != d->n_features) {
        snprintf(sentence, TUSK_SENTENCE, "a row has %llu features, and the model has %llu",
                 (unsigned long long)row->n, (unsigned long long)d->n_features);
        return false;
    }
    if (!read_whole(d, row, &whole, sentence))
        return false;
    for (uint64_t k = 0; k < d->n_features; k++) {
        feature *f = features_of(d) + k;
        value v;
        if (!read_value(d, k, row, &v, sentence))
            return false;
        f->weight += row->weight;
        if (v.null)
            f->nulls += row->weight;
        else if (whole)
            add_value(d, f, &v, row->weight);
    }
    return true;
}

bool tusk_drift_merge(tusk_drift *target, const tusk_drift *source, char *sentence) {
    if (!tusk_drift_of(target, json_of(source), sentence))
        return false;
    for (uint64_t i = 0; i < target->n_features; i++) {
        feature *to = features_of(target) + i;
        const feature *from = features_of(source) + i;
        const bins sums = bins_of(target, to), more = bins_of(source, from);
        to->nulls += from->nulls;
        to->weight += from->weight;
        for (uint64_t k = 0; k < sums.n; k++)
            sums.counts_now[k] += more.counts_now[k];
        for (uint64_t k = 0; k < ties_of(to); k++)
            sums.ties_now[k] += more.ties_now[k];
        for (uint32_t k = 0; k < from->n_new; k++)
            note_new(to, from->fresh[k].text, from->fresh[k].length);
    }
    return true;
}

/* --- results --- */

static double sum_of(const double *x, uint64_t n) {
    double sum = 0;
    for (uint64_t k = 0; k < n; k++)
        sum += x[k];
    return sum;
}

/* The term of a bin with these shares of the rows. */
static double psi_term(double before, double now) {
    double p = fmax(now, LEAST_SHARE), q = fmax(before, LEAST_SHARE);
    return (p - q) * log(p / q);
}

/* The number of deciles up to a share of the training. */
static int deciles_to(double share) {
    int found = (int)floor(share * DECILES + ROUNDING);
    return found < DECILES - 1 ? found : DECILES - 1;
}

/* The population stability index: of a number over the bins between the deciles of the training,
 * as the metric psi has them, which are edges of bins. NaN without values on either side. */
static double psi_of(const bins *b, bool levels) {
    double all = sum_of(b->counts, b->n), all_now = sum_of(b->counts_now, b->n), sum = 0;
    double seen = 0, before = 0, now = 0;
    if (!(all > 0 && all_now > 0))
        return NAN;
    for (uint64_t k = 0; k < b->n; k++) {
        int passed = deciles_to(seen / all);
        seen += b->counts[k];
        before += b->counts[k];
        now += b->counts_now[k];
        if (levels || k + 1 == b->n || deciles_to(seen / all) > passed) {
            sum += psi_term(before / all, now / all_now);
            before = now = 0;
        }
    }
    return sum;
}

/* Bounds of the statistic of Kolmogorov and Smirnov. Both distribution functions are known at an
 * edge and just below it; between two edges each rises from one of these to the other. */
static void ks_of(const bins *b, double *low, double *high) {
    double all = sum_of(b->counts, b->n), all_now = sum_of(b->counts_now, b->n);
    double before = 0, now = 0;
    *low = *high = all > 0 && all_now > 0 ? 0 : NAN;
    for (uint64_t k = 0; k < b->n && all > 0 && all_now > 0; k++) {
        bool last = k + 1 == b->n;
        double at = before + b->counts[k] / all, at_now = now + b->counts_now[k] / all_now;
        double below = at - (last ? 0 : b->ties[k] / all);
        double below_now = at_now - (last ? 0 : b->ties_now[k] / all_now);
        *low = fmax(*low, fmax(fabs(at_now - at), fabs(below_now - below)));
        *high = fmax(*high, fmax(below_now - before, below - now));
        before = at;
        now = at_now;
    }
    *high = fmax(*low, *high);
}

const tusk_table TUSK_DRIFT_TABLE = {8,
                                     {{"feature", TUSK_TEXT_CELL},
                                      {"psi", TUSK_NUMBER_CELL},
                                      {"ks_low", TUSK_NUMBER_CELL},
                                      {"ks_high", TUSK_NUMBER_CELL},
                                      {"nulls_before", TUSK_NUMBER_CELL},
                                      {"nulls_now", TUSK_NUMBER_CELL},
                                      {"new_levels", TUSK_TEXT_CELL},
                                      {"missing_levels", TUSK_TEXT_CELL}}};

/* Names of levels in a row. */
typedef struct names {
    char text[(MOST_NAMED + 1) * (NAME_BYTES + 2)];
    uint64_t n, length;
} names;

static void add_name(names *all, const char *text, uint64_t length) {
    if (all->n++ > MOST_NAMED)
        return;
    if (all->n > 1) {
        memcpy(all->text + all->length, ", ", 2);
        all->length += 2;
    }
    if (all->n > MOST_NAMED) {
        text = "...";
        length = 3;
    }
    length = (uint64_t)tusk_quoted(text, length, NAME_BYTES);
    memcpy(all->text + all->length, text, length);
    all->length += length;
}

static tusk_cell cell_of(const names *all) {
    return (tusk_cell){.words = all->text, .length = (int32_t)all->length, .null = !all->n};
}

static void find_missing(const tusk_drift *d, const feature *f, const bins *b, names *found) {
    const uint64_t *ends = ends_of(d) + f->ends;
    for (uint64_t k = 0; k < f->n && f->form == LEVELS; k++) {
        uint64_t begin = k ? ends[k - 1] : f->text;
        if (b->counts_now[k] == 0)
            add_name(found, text_of(d) + begin, ends[k] - begin);
    }
}

static tusk_cell known_number(double x) {
    return (tusk_cell){.number = x, .null = isnan(x)};
}

void tusk_drift_write(const tusk_drift *d, tusk_writer writer) {
    for (uint64_t i = 0; i < d->n_features; i++) {
        const feature *f = features_of(d) + i;
        const bins b = bins_of(d, f);
        double low = NAN, high = NAN;
        names fresh = {.n = 0}, missing = {.n = 0};
        if (f->form == NUMBER)
            ks_of(&b, &low, &high);
        for (uint32_t k = 0; k < f->n_new; k++)
            add_name(&fresh, f->fresh[k].text, f->fresh[k].length);
        find_missing(d, f, &b, &missing);
        tusk_text name = name_of(d, f);
        tusk_row row = {
            {.words = name.data, .length = (int32_t)name.length},
            known_number(psi_of(&b, f->form == LEVELS)),
            known_number(low),
            known_number(high),
            known_number(f->nulls_before),
            known_number(f->weight > 0 ? f->nulls / f->weight : NAN),
            cell_of(&fresh),
            cell_of(&missing),
        };
        if (!writer.write(row, writer.context))
            return;
    }
}
