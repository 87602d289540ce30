#include "specs.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024

struct spec_table {
    pthread_mutex_t lock;
    spec *buckets[BUCKETS];
};

spec_table *spec_table_new(void) {
    spec_table *t = calloc(1, sizeof *t);
    if (t)
        pthread_mutex_init(&t->lock, NULL);
    return t;
}

void spec_table_free(spec_table *t) {
    if (!t)
        return;
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* FNV-1a */
static uint64_t hash(uint64_t h, text t) {
    for (size_t i = 0; i < t.length; i++)
        h = (h ^ (unsigned char)t.data[i]) * 1099511628211u;
    return h;
}

static bool same(const char *data, size_t length, text t) {
    return length == t.length && memcmp(data, t.data, length) == 0;
}

static char *copy(text t) {
    char *p = malloc(t.length + 1);
    if (!p)
        return NULL;
    memcpy(p, t.data, t.length);
    p[t.length] = 0;
    return p;
}

static void spec_free(spec *s) {
    free(s->task);
    free(s->options);
    free(s);
}

/* The task, or the one that is before the slash of a handle of Python (learners/receiving.py). */
static tusk_text task_of(text task) {
    const char *slash = memchr(task.data, '/', task.length);
    return (tusk_text){task.data, slash ? (size_t)(slash - task.data) : task.length};
}

static spec *spec_new(spec_table *table, size_t bucket, text task, text options) {
    spec *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (spec){.task = copy(task),
                .options = copy(options),
                .task_length = task.length,
                .options_length = options.length,
                .table = table,
                .bucket = bucket,
                .references = 1,
                .labelled = tusk_takes_labels(task_of(task)),
                .ordered = tusk_orders_labels((tusk_text){task.data, task.length}),
                .documents = tusk_takes_documents(task_of(task)),
                .ids = tusk_takes_ids(task_of(task)),
                .gaps = tusk_kept_gaps((tusk_text){task.data, task.length},
                                       (tusk_text){options.data, options.length}),
                .invalid = tusk_invalid_rows((tusk_text){options.data, options.length}),
                .merges = tusk_merges_rows((tusk_text){task.data, task.length},
                                           (tusk_text){options.data, options.length})};
    if (!s->task || !s->options) {
        spec_free(s);
        return NULL;
    }
    s->next = table->buckets[bucket];
    table->buckets[bucket] = s;
    return s;
}

spec *spec_intern(spec_table *table, text task, text options) {
    size_t bucket = hash(hash(14695981039346656037u, task), options) % BUCKETS;
    pthread_mutex_lock(&table->lock);
    spec *s = table->buckets[bucket];
    while (s &&
           !(same(s->task, s->task_length, task) && same(s->options, s->options_length, options)))
        s = s->next;
    if (s)
        s->references++;
    else
        s = spec_new(table, bucket, task, options);
    pthread_mutex_unlock(&table->lock);
    return s;
}

void spec_retain(spec *s) {
    pthread_mutex_lock(&s->table->lock);
    s->references++;
    pthread_mutex_unlock(&s->table->lock);
}

void spec_release(spec *s) {
    spec_table *table = s->table;
    pthread_mutex_lock(&table->lock);
    if (--s->references == 0) {
        spec **link = &table->buckets[s->bucket];
        while (*link != s)
            link = &(*link)->next;
        *link = s->next;
        spec_free(s);
    }
    pthread_mutex_unlock(&table->lock);
}
