#include "lexicon.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../rowblock/derived.h"

#define FIRST_ROOM 16 /* a power of 2 */
#define NEAR_BYTES 16
#define FIRST_WAIT                                                                \
    16 /* number of single look-ups that look-ups of all rows of a chunk wait for \
        */
#define FEW_ROWS 64
#define RECENT 64 /* a power of 2 */

/* A level, in half a cache line. Long texts are stored elsewhere. */
typedef struct level {
    uint32_t hash, length;
    union {
        char near[NEAR_BYTES];
        char *far;
    } text;
    uint32_t number; /* TUSK_NO_LEVEL: a free slot */
} level;

/* Texts of numbers are slow to format, so some are cached. */
typedef struct recent {
    double value;
    uint32_t number; /* + 1; 0: none */
} recent;

/* The levels of the last model. */
typedef struct last {
    uint32_t *ends, *number; /* [n], in one piece of memory */
    char *text;
    uint32_t n;
    size_t room, text_room; /* of ends, and of text */
} last;

typedef struct whole {
    tusk_lexicon seen; /* the first field: visible to others */
    struct whole *next;
    uint64_t hash;
    tusk_reading reading;
    level *place;
    uint32_t mask;
    uint32_t *rows;
    uint64_t room;        /* of rows */
    uint64_t asked, wait; /* single look-ups in the chunk, and the number to wait for */
    recent *recent;       /* [RECENT], of numbers */
    last last;
} whole;

static void free_one(whole *w) {
    for (uint32_t i = 0; w->place && i <= w->mask; i++)
        if (w->place[i].number != TUSK_NO_LEVEL && w->place[i].length > NEAR_BYTES)
            free(w->place[i].text.far);
    free(w->place);
    free(w->recent);
    free(w->last.ends);
    free(w->last.text);
    free(w->rows);
    free((char *)w->reading.name.data);
    free(w);
}

void tusk_lexica_free(tusk_lexica *all) {
    for (int i = 0; i < TUSK_LEXICON_CHAINS; i++)
        for (whole *w = (whole *)all->first[i], *next; w; w = next) {
            next = w->next;
            free_one(w);
        }
    *all = (tusk_lexica){0};
}

static level *free_places(uint32_t n) {
    level *place;
    if (posix_memalign((void **)&place, 64, n * sizeof *place))
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        place[i].number = TUSK_NO_LEVEL;
    return place;
}

static whole *new_one(tusk_reading reading, uint64_t hash) {
    whole *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    char *name = malloc(reading.name.length + 1);
    w->hash = hash;
    w->reading = reading;
    w->reading.name.data = name;
    w->mask = FIRST_ROOM - 1;
    w->place = free_places(FIRST_ROOM);
    w->recent = reading.text ? NULL : calloc(RECENT, sizeof *w->recent);
    if (!name || !w->place || (!reading.text && !w->recent)) {
        free_one(w);
        return NULL;
    }
    memcpy(name, reading.name.data, reading.name.length);
    return w;
}

tusk_lexicon *tusk_lexicon_of(tusk_lexica *all, tusk_reading reading) {
    uint64_t hash = tusk_hash_text(reading.name.data, reading.name.length);
    hash = tusk_hash_mix(hash, 2 * reading.part + reading.text);
    tusk_lexicon **chain = all->first + hash % TUSK_LEXICON_CHAINS;
    for (whole *w = (whole *)*chain; w; w = w->next)
        if (w->hash == hash && w->reading.part == reading.part &&
            w->reading.text == reading.text && w->reading.name.length == reading.name.length &&
            memcmp(w->reading.name.data, reading.name.data, reading.name.length) == 0)
            return &w->seen;
    whole *w = new_one(reading, hash);
    if (!w)
        return NULL;
    w->next = (whole *)*chain;
    *chain = &w->seen;
    all->bytes += sizeof *w + FIRST_ROOM * sizeof *w->place + reading.name.length;
    return &w->seen;
}

/* --- levels --- */

/* The slot of a text, or the free slot for it. */
static level *place_of(const whole *w, tusk_text text, uint32_t hash) {
    for (uint32_t at = hash & w->mask;; at = (at + 1) & w->mask) {
        level *p = w->place + at;
        if (p->number == TUSK_NO_LEVEL ||
            (p->hash == hash && p->length == text.length &&
             tusk_same_bytes(text.length > NEAR_BYTES ? p->text.far : p->text.near, text.data,
                             text.length)))
            return p;
    }
}

static bool grow(tusk_lexica *all, whole *w) {
    uint32_t old = w->mask + 1;
    level *place = old > UINT32_MAX / 4 ? NULL : free_places(2 * old);
    if (!place)
        return false;
    for (uint32_t i = 0; i < old; i++) {
        level *p = w->place + i;
        uint32_t at = p->hash & (2 * old - 1);
        if (p->number == TUSK_NO_LEVEL)
            continue;
        while (place[at].number != TUSK_NO_LEVEL)
            at = (at + 1) & (2 * old - 1);
        place[at] = *p;
    }
    free(w->place);
    w->place = place;
    w->mask = 2 * old - 1;
    all->bytes += old * sizeof *place;
    return true;
}

static bool copy_text(tusk_lexica *all, level *p, tusk_text text) {
    if (text.length <= NEAR_BYTES) {
        if (text.length)
            memcpy(p->text.near, text.data, text.length);
        return true;
    }
    char *far = malloc(text.length);
    if (!far)
        return false;
    memcpy(far, text.data, text.length);
    p->text.far = far;
    all->bytes += text.length;
    return true;
}

/* The number of a level, which is added if it is new; TUSK_NO_LEVEL if memory is out. */
static uint32_t add(tusk_lexica *all, whole *w, tusk_text text) {
    uint32_t hash = (uint32_t)tusk_hash_text(text.data, text.length);
    level *p = place_of(w, text, hash);
    if (p->number != TUSK_NO_LEVEL)
        return p->number;
    if (4 * (uint64_t)w->seen.n >= 3 * (uint64_t)w->mask) {
        if (!grow(all, w))
            return TUSK_NO_LEVEL;
        p = place_of(w, text, hash);
    }
    if (!copy_text(all, p, text))
        return TUSK_NO_LEVEL;
    p->hash = hash;
    p->length = (uint32_t)text.length;
    w->seen.fresh = false; /* rows that were looked up may have this level */
    return p->number = w->seen.n++;
}

/* --- levels of models --- */

static bool are_last(const last *l, const tusk_level_texts *levels) {
    uint32_t n = levels->n;
    return n && n == l->n && memcmp(l->ends, levels->ends, n * sizeof *l->ends) == 0 &&
           l->ends[n - 1] <= levels->all.length &&
           memcmp(l->text, levels->all.data, l->ends[n - 1]) == 0;
}

static bool make_room(tusk_lexica *all, last *l, uint32_t n, size_t text) {
    if (n >= l->room) { /* one more than n, so that an empty list has numbers too */
        size_t room = (size_t)n + n / 2 + 1;
        uint32_t *ends = malloc(2 * room * sizeof *ends);
        if (!ends)
            return false;
        free(l->ends);
        all->bytes += 2 * (room - l->room) * sizeof *ends;
        l->ends = ends;
        l->number = ends + room;
        l->room = room;
    }
    if (text >= l->text_room) {
        size_t room = text + text / 2 + 1;
        char *texts = malloc(room);
        if (!texts)
            return false;
        free(l->text);
        all->bytes += room - l->text_room;
        l->text = texts;
        l->text_room = room;
    }
    return true;
}

static bool number_levels(tusk_lexica *all, whole *w, const tusk_level_texts *levels) {
    uint32_t begin = 0;
    for (uint32_t k = 0; k < levels->n; k++) {
        uint32_t end = levels->ends[k];
        if (end < begin || end > levels->all.length)
            return false;
        uint32_t number = add(all, w, (tusk_text){levels->all.data + begin, end - begin});
        if (number == TUSK_NO_LEVEL)
            return false;
        w->last.ends[k] = begin = end;
        w->last.number[k] = number;
    }
    memcpy(w->last.text, levels->all.data, begin);
    return true;
}

const uint32_t *tusk_lexicon_numbers(tusk_lexica *all, tusk_lexicon *lexicon,
                                     tusk_level_texts levels) {
    whole *w = (whole *)lexicon;
    last *l = &w->last;
    if (are_last(l, &levels))
        return l->number;
    l->n = 0;
    uint32_t length = levels.n ? levels.ends[levels.n - 1] : 0;
    if (length > levels.all.length || !make_room(all, l, levels.n, length) ||
        !number_levels(all, w, &levels))
        return NULL;
    l->n = levels.n;
    return l->number;
}

/* --- rows --- */

static uint32_t number_of_text(const whole *w, tusk_text text) {
    return place_of(w, text, (uint32_t)tusk_hash_text(text.data, text.length))->number;
}

static uint32_t number_of_value(whole *w, const tusk_given_column *given, uint64_t row) {
    double value = tusk_part_of(given->numbers[row], (enum tusk_date_part)w->reading.part) + 0.0;
    char digits[TUSK_NUMBER_ROOM];
    if (fabs(value) >= 0x1p53)
        return number_of_text(w, tusk_level_text(given, row, value, digits));
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    recent *r = w->recent + (tusk_hash_mix(bits, 0) & (RECENT - 1));
    if (r->number && r->value == value)
        return r->number - 1;
    uint32_t number = number_of_text(w, tusk_level_text(given, row, value, digits));
    if (number != TUSK_NO_LEVEL) /* another one may become a level yet */
        *r = (recent){value, number + 1};
    return number;
}

static uint32_t number_at(whole *w, const tusk_given_column *given, uint64_t row) {
    return w->reading.text ? number_of_text(w, given->texts[row]) : number_of_value(w, given, row);
}

static bool read_rows(whole *w, const tusk_given_column *given, const tusk_named_rows *rows) {
    if (rows->n > w->room) {
        free(w->rows);
        w->rows = malloc(rows->n * sizeof *w->rows);
        w->room = w->rows ? rows->n : 0;
    }
    if (!w->rows)
        return false;
    for (uint64_t i = 0; i < rows->n; i++)
        w->rows[i] = tusk_given_valid(given, i) ? number_at(w, given, i) : TUSK_NO_LEVEL;
    w->seen.row = w->rows;
    w->seen.fresh = true;
    return true;
}

const uint32_t *tusk_lexicon_rows(tusk_lexicon *lexicon, const tusk_given_column *given,
                                  const tusk_named_rows *rows, uint64_t uses) {
    whole *w = (whole *)lexicon;
    if (tusk_lexicon_knows(lexicon, rows))
        return w->rows;
    if (lexicon->serial != rows->serial) {
        lexicon->serial = rows->serial;
        lexicon->fresh = false;
        w->asked = 0;
        w->wait = FIRST_WAIT;
    }
    w->asked += uses;
    if (rows->n < FEW_ROWS || w->asked < w->wait)
        return NULL;
    w->wait *= 2; /* each new level invalidates all look-ups */
    w->asked = 0;
    return read_rows(w, given, rows) ? w->rows : NULL;
}

uint32_t tusk_lexicon_look_up(tusk_lexicon *lexicon, const tusk_given_column *given,
                              const tusk_named_rows *rows, uint64_t row) {
    const uint32_t *all = rows->n < FEW_ROWS ? NULL : tusk_lexicon_rows(lexicon, given, rows, 1);
    return all ? all[row] : number_at((whole *)lexicon, given, row);
}
