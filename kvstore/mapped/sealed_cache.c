#include "sealed_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "reference.h"

/* A file in the cache, and its reference count. */
typedef struct holding {
    sealed_file *file;
    char *root;
    char text[STORE_REFERENCE + 1];
    int64_t references; /* includes the cache's own, while it is listed */
    uint64_t used;      /* when it was last requested */
    struct holding *next;
    bool listed; /* whether it can be found by its name */
} holding;

struct sealed_cache {
    pthread_mutex_t lock;
    holding *first;
    uint64_t clock;
    int64_t n_listed;
};

sealed_cache *sealed_cache_new(void) {
    sealed_cache *c = calloc(1, sizeof *c);
    if (c)
        pthread_mutex_init(&c->lock, NULL);
    return c;
}

static void holding_free(holding *h) {
    sealed_file_close(h->file);
    free(h->root);
    free(h);
}

void sealed_cache_free(sealed_cache *c) {
    if (!c)
        return;
    for (holding *h = c->first, *next; h; h = next) {
        next = h->next;
        holding_free(h);
    }
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* --- under the lock --- */

static void let_loose(sealed_cache *c, holding *h) {
    if (--h->references)
        return;
    holding **at = &c->first;
    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    holding_free(h);
}

static void unlist(sealed_cache *c, holding *h) {
    h->listed = false;
    c->n_listed--;
    let_loose(c, h);
}

static holding *look_up(const sealed_cache *c, const char *root, const char *text) {
    for (holding *h = c->first; h; h = h->next)
        if (h->listed && strcmp(h->text, text) == 0 && strcmp(h->root, root) == 0)
            return h;
    return NULL;
}

static void make_room(sealed_cache *c) {
    if (c->n_listed < SEALED_CACHE_FILES)
        return;
    holding *oldest = NULL;
    for (holding *h = c->first; h; h = h->next)
        if (h->listed && (!oldest || h->used < oldest->used))
            oldest = h;
    unlist(c, oldest);
}

/* Gives every file the same share of the memory; files that use more give it back. */
static void share(sealed_cache *c, int64_t memory, bool let_go) {
    for (holding *h = c->first; h; h = h->next) {
        sealed_file_limit(h->file, memory / (c->n_listed ? c->n_listed : 1));
        if (let_go)
            sealed_file_let_go(h->file);
    }
}

static holding *add(sealed_cache *c, const char *root, const store_reference *r, int64_t memory,
                    sealed_error *e) {
    make_room(c);
    holding *h = calloc(1, sizeof *h);
    char *copy = strdup(root);
    sealed_file *file = NULL;
    if (!h || !copy)
        sealed_refuse(e, SEALED_NO_MEMORY, "out of memory for the stored model %s", r->text);
    else
        file = store_reference_open(root, r, memory, e);
    if (!file) {
        free(h);
        free(copy);
        return NULL;
    }
    *h = (holding){.file = file, .root = copy, .references = 1, .next = c->first, .listed = true};
    strcpy(h->text, r->text);
    c->first = h;
    c->n_listed++;
    share(c, memory, true);
    return h;
}

static holding *get(sealed_cache *c, const char *root, const store_reference *r, int64_t memory,
                    sealed_error *e) {
    holding *h = look_up(c, root, r->text);
    if (h && !sealed_file_same(h->file)) {
        unlist(c, h);
        h = NULL;
    }
    if (!h)
        h = add(c, root, r, memory, e);
    else
        share(c, memory, false);
    if (h) {
        h->references++;
        h->used = ++c->clock;
    }
    return h;
}

/* --- */

sealed_file *sealed_cache_acquire(sealed_cache *c, const char *root, const char *reference,
                                  size_t length, int64_t memory, sealed_error *e) {
    store_reference r;
    if (!store_reference_parse(reference, length, &r, e))
        return NULL;
    if (!root) {
        sealed_refuse(e, SEALED_UNKNOWN,
                      "tuskml knows no directory of stores: say tuskml.connect(store_root=...), "
                      "or set the environment's TUSKML_STORE_ROOT");
        return NULL;
    }
    pthread_mutex_lock(&c->lock);
    holding *h = get(c, root, &r, memory, e);
    pthread_mutex_unlock(&c->lock);
    return h ? h->file : NULL;
}

void sealed_cache_release(sealed_cache *c, sealed_file *f) {
    pthread_mutex_lock(&c->lock);
    holding *h = c->first;
    while (h->file != f)
        h = h->next;
    let_loose(c, h);
    pthread_mutex_unlock(&c->lock);
}
