/* The helper process: trains batches of its client. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../../rowblock/handed/handed.h"
#include "../../emit.h"
#include "../../training/interrupt.h"
#include "answers.h"
#include "channel.h"
#include "parcel.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434 /* since Linux 5.3; older headers lack it */
#endif
#define MOST_ACCOUNTS 64

typedef struct job {
    int file, stream;
    int64_t bytes;
    int64_t born; /* the cancel count on arrival */
} job;

/* The memory accounts of the client's databases. They are never freed: a database opened at the
 * address of a closed one takes its account. */
static struct {
    int64_t database;
    tusk_memory *memory;
} accounts[MOST_ACCOUNTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Databases beyond the table share its last account. NULL if memory is out. */
static tusk_memory *account_of(int64_t database) {
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < MOST_ACCOUNTS - 1 && accounts[i].memory && accounts[i].database != database)
        i++;
    if (!accounts[i].memory)
        accounts[i].memory = tusk_memory_new();
    accounts[i].database = database;
    tusk_memory *found = accounts[i].memory;
    pthread_mutex_unlock(&lock);
    return found;
}

/* The batch in a file, mapped; NULL if memory is out. */
static tusk_slab *mapped(const job *j) {
    parcel head;
    tusk_memory *memory = NULL;
    if (pread(j->file, &head, sizeof head, TUSK_SLAB_HEADER) == (ssize_t)sizeof head)
        memory = account_of(head.account);
    tusk_slab *slab = memory ? tusk_slab_adopt(memory, j->file, (size_t)j->bytes, 1) : NULL;
    if (!slab)
        return NULL;
    tusk_memory_limit(memory, head.budget, parcel_text(slab, head.directory));
    tusk_memory_elsewhere(memory, head.resident);
    return slab;
}

static void train(const job *j, reply *r) {
    tusk_batch batch = {.error = "the helper process is out of memory"};
    tusk_slab *slab = mapped(j);
    if (slab && parcel_read(slab, &batch)) {
        int64_t account = parcel_of(slab)->account;
        answer a = {.born = j->born, .reply = r, .database = (database *)(intptr_t)account};
        batch.memory = account_of(account);
        batch.context = &a;
        trainer_now()(&batch);
    }
    reply_end(r, &batch);
    if (slab)
        tusk_slab_drop(slab);
}

static void *run(void *given) {
    job j = *(job *)given;
    free(given);
    reply r = {.stream = j.stream};
    reply_begun(&r);
    train(&j, &r);
    close(j.file);
    close(j.stream);
    return NULL;
}

/* Ends a batch without training; error: "" for a cancelled one. */
static void refuse_job(const int files[2], const char *error) {
    tusk_batch batch = {0};
    snprintf(batch.error, sizeof batch.error, "%s", error);
    reply_end(&(reply){.stream = files[1]}, &batch);
    close(files[0]);
    close(files[1]);
}

static void begin(const note *n, const int files[2]) {
    pthread_t thread;
    job *j = malloc(sizeof *j);
    if (j)
        *j = (job){files[0], files[1], n->bytes, cancels_so_far()};
    if (j && pthread_create(&thread, NULL, run, j) == 0) {
        pthread_detach(thread);
        return;
    }
    free(j);
    refuse_job(files, "the helper process cannot start a thread");
}

/* Waits for a note. The client's end closes the channel, unless a fork of the client has a copy
 * of it; so the process itself is watched too, if the system can. */
static bool next_note(struct pollfd watched[2], note *n, int files[2]) {
    while (poll(watched, 2, -1) < 0 && errno == EINTR) {
    }
    if (watched[0].revents)
        return note_receive(watched[0].fd, n, files);
    return !watched[1].revents;
}

TUSK_EXPORT void tusk_serve(int channel) {
    int client = (int)syscall(SYS_pidfd_open, getppid(), 0);
    struct pollfd watched[2] = {{.fd = channel, .events = POLLIN},
                                {.fd = client, .events = POLLIN}};
    int64_t seen = 0; /* cancels of the client */
    int files[2] = {-1, -1};
    if (!stream_send(channel, READY, strlen(READY)))
        return;
    for (note n; next_note(watched, &n, files);) {
        if (n.cancels > seen) {
            seen = n.cancels;
            cancel_trainings();
        }
        if (n.kind != NOTE_TRAIN)
            continue;
        if (n.cancels < seen)
            refuse_job(files, "");
        else
            begin(&n, files);
    }
    _exit(0); /* with its trainings, whose results have no receiver */
}
