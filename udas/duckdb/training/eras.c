#include "eras.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct eras {
    tusk_memory *account;
    pthread_rwlock_t inside;
    pthread_mutex_t lock; /* protects the list and the fields of eras.c in each era */
    era *list;            /* the first one takes new runs */
    atomic_bool untidy;
    _Atomic int64_t newest;
};

eras *eras_new(tusk_memory *account) {
    eras *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    all->account = account;
    pthread_rwlock_init(&all->inside, NULL);
    pthread_mutex_init(&all->lock, NULL);
    return all;
}

static void era_free(era *e) {
    while (e->runs) {
        run *next = e->runs->next;
        free(e->runs);
        e->runs = next;
    }
    tusk_memory_free(e->memory);
    free(e);
}

static void free_all(era *list) {
    while (list) {
        era *next = list->next;
        era_free(list);
        list = next;
    }
}

void eras_free(eras *all) {
    if (!all)
        return;
    free_all(all->list);
    pthread_rwlock_destroy(&all->inside);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

int64_t eras_newest(eras *all) {
    return atomic_load_explicit(&all->newest, memory_order_relaxed);
}

/* --- freeing memory --- */

static era *head(era *e) {
    while (e->family != e)
        e = e->family;
    return e;
}

/* An era that is over keeps its runs while it has states, because DuckDB may still use them. */
static void tidy(eras *all) {
    for (era *e = all->list; e; e = e->next)
        e->n_left = 0;
    for (era *e = all->list; e; e = e->next)
        head(e)->n_left += e->n_states;
    era *gone = NULL;
    for (era **link = &all->list; *link;) {
        era *e = *link;
        if (e->over)
            tusk_memory_empty(e->memory);
        if (head(e)->n_left) {
            link = &e->next;
        } else {
            *link = e->next;
            e->next = gone;
            gone = e;
        }
    }
    free_all(gone);
}

void eras_enter(eras *all) {
    pthread_rwlock_rdlock(&all->inside);
}

/* The last thread to leave tidies up. */
void eras_leave(eras *all) {
    pthread_rwlock_unlock(&all->inside);
    while (atomic_load_explicit(&all->untidy, memory_order_relaxed)) {
        if (pthread_rwlock_trywrlock(&all->inside))
            return;
        if (atomic_exchange(&all->untidy, false))
            tidy(all);
        pthread_rwlock_unlock(&all->inside);
    }
}

/* --- eras and runs --- */

static era *era_new(eras *all, int64_t cancels) {
    era *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->all = all;
    e->family = e;
    e->born = cancels;
    e->memory = tusk_memory_part(all->account);
    if (!e->memory) {
        free(e);
        return NULL;
    }
    static _Atomic int64_t eras_so_far;
    e->number = atomic_fetch_add(&eras_so_far, 1) + 1;
    atomic_store(&all->newest, e->number);
    e->next = all->list;
    all->list = e;
    return e;
}

static void end(era *e) {
    if (!atomic_exchange(&e->over, true))
        atomic_store(&e->all->untidy, true);
}

static era *open_era(eras *all, int64_t cancels) {
    era *first = all->list;
    if (first && first->born == cancels && !first->closed && !first->over)
        return first;
    for (era *e = first; e; e = e->next)
        if (e->born != cancels)
            end(e);
    return era_new(all, cancels);
}

run *run_new(eras *all, int64_t cancels) {
    run *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    r->began = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    pthread_mutex_lock(&all->lock);
    r->era = open_era(all, cancels);
    if (r->era) {
        r->next = r->era->runs;
        r->era->runs = r;
        head(r->era)->n_runs++;
    }
    pthread_mutex_unlock(&all->lock);
    if (r->era)
        return r;
    free(r);
    return NULL;
}

static run *first_of(run *r) {
    for (run *next; (next = atomic_load_explicit(&r->same, memory_order_acquire));)
        r = next;
    return r;
}

static void merge(era *a, era *b) {
    if (a != b) {
        b->family = a;
        a->n_runs += b->n_runs;
        a->n_joined += b->n_joined;
        if (b->number < a->number)
            a->number = b->number;
    }
    a->n_joined++;
}

void run_join(run *a, run *b) {
    if (a == b || first_of(a) == first_of(b))
        return;
    eras *all = a->era->all;
    pthread_mutex_lock(&all->lock);
    a = first_of(a);
    b = first_of(b);
    if (a != b) {
        atomic_store_explicit(&b->same, a, memory_order_release);
        merge(head(a->era), head(b->era));
    }
    pthread_mutex_unlock(&all->lock);
}

void run_drop_state(run *r) {
    if (atomic_fetch_sub(&r->era->n_states, 1) == 1)
        atomic_store(&r->era->all->untidy, true);
}

int64_t run_statement(run *r) {
    eras *all = r->era->all;
    pthread_mutex_lock(&all->lock);
    int64_t number = head(r->era)->number;
    pthread_mutex_unlock(&all->lock);
    return number;
}

double run_began(run *r) {
    double first = r->began;
    while ((r = atomic_load_explicit(&r->same, memory_order_acquire)))
        if (r->began < first)
            first = r->began;
    return first;
}

void run_close(run *r) {
    if (!atomic_load_explicit(&r->era->closed, memory_order_relaxed))
        atomic_store(&r->era->closed, true);
}

void run_fail(run *r, const char *why) {
    eras *all = r->era->all;
    pthread_mutex_lock(&all->lock);
    era *family = head(r->era);
    if (family->n_runs - family->n_joined == 1)
        for (era *e = all->list; e; e = e->next)
            if (head(e) == family) {
                if (!e->over)
                    snprintf(e->why, sizeof e->why, "%s", why);
                end(e);
            }
    pthread_mutex_unlock(&all->lock);
}
